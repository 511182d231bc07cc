#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/sparse_rows.c in TensorFlow, over grpc and a v1 Session: tf.unique and the loss at the chief, the lookup and Adagrad at
the ps. The batches lie in a variable of the chief, so that nothing is fed and nothing is known beforehand. Turns as bench/support/turns.h has them."""
import argparse
import json

import cluster_peer

BATCH, WIDTH, SETS, EXPONENT = 512 * 26, 16, 8, 1.05


def main():
    if cluster_peer.is_task():
        cluster_peer.serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    tf, session = cluster_peer.session_over(1)
    import numpy as np
    v1 = tf.compat.v1
    u = np.random.RandomState(1).random_sample((SETS, BATCH))
    rank = np.floor((1 + (options.rows ** (1 - EXPONENT) - 1) * u) ** (1 / (1 - EXPONENT))).astype(np.int64) - 1
    ids = rank * 7919 % options.rows
    distinct = [len(np.unique(batch)) for batch in ids]
    with tf.device("/job:ps/task:0"):
        table = v1.get_variable("table", [options.rows, WIDTH], initializer=v1.constant_initializer(0.01), use_resource=True)
    with tf.device("/job:chief/task:0"):
        batches = v1.get_variable("batches", initializer=ids, use_resource=True, trainable=False)
        turn = v1.get_variable("turn", [], tf.int64, v1.zeros_initializer(), use_resource=True, trainable=False)
        some, index = tf.unique(tf.gather(batches, turn.assign_add(1) % SETS))
        loss = tf.reduce_mean(tf.square(tf.gather(tf.nn.embedding_lookup(table, some), index)))
        update = v1.train.AdagradOptimizer(0.01).minimize(loss)
    session.run(v1.global_variables_initializer())
    run, made = session.make_callable(update), 0

    def step():
        nonlocal made
        run()
        made += 1
        return distinct[made % SETS]
    for _ in range(SETS):
        step()
    before, made = cluster_peer.socket_bytes(), 0
    cluster_peer.take_turns(lambda: cluster_peer.repeat(step, options.seconds), options.turns)
    print(json.dumps({"distinct": sum(distinct) / SETS, "bytes": (cluster_peer.socket_bytes() - before) / made}), flush=True)
    cluster_peer.end()


if __name__ == "__main__":
    main()
