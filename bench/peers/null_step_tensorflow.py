#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/null_step.c in TensorFlow: global_step at the first ps is counted, and a counter at each other ps, over grpc and a v1
Session. Turns as bench/support/turns.h has them."""
import argparse

import cluster_peer

WARM_STEPS = 100


def main():
    if cluster_peer.is_task():
        cluster_peer.serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    tf, session = cluster_peer.session_over(options.ps)
    v1, counts = tf.compat.v1, []
    for i in range(options.ps):
        with tf.device(f"/job:ps/task:{i}"):
            counter = v1.get_variable(f"count{i}", [], tf.int64, v1.zeros_initializer(), use_resource=True)
            counts.append(counter.assign_add(1, read_value=False))
    session.run(v1.global_variables_initializer())
    run = session.make_callable(tf.group(*counts))

    def step():
        run()
        return 1
    for _ in range(WARM_STEPS):
        step()
    cluster_peer.take_turns(lambda: cluster_peer.repeat(step, options.seconds), options.turns)
    cluster_peer.end()


if __name__ == "__main__":
    main()
