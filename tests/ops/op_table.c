/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops: every name is found, none twice, every signature can be read, and what TensorFlow does not have can
 * be written in its ops. */
#include "graph/signature.h"
#include "ops/ops.h"
#include "support/graph_test.h"

/* What the members of an update name must be there and must be no variable. */
static void check_update(const est_op *op, const est_signature *signature)
{
    const int inputs[] = { op->update->gradient, op->update->indices, op->update->keys };

    for (int i = 0; i < 3; i++) {
        CHECK(inputs[i] >= 0 && inputs[i] < signature->n_in, "%s has no input %d", op->name, inputs[i]);
        CHECK(inputs[i] == 0 || signature->in[inputs[i]].dtype != EST_RESOURCE, "input %d of %s is a variable",
              inputs[i], op->name);
    }
    for (int i = 0; i < signature->n_in; i++) {
        CHECK((op->writes >> i & 1u) == 0 || signature->in[i].dtype == EST_RESOURCE, "input %d of %s is no variable", i,
              op->name);
    }
    CHECK(op->update->gradient != 0 || op->update->indices == 0, "%s has indices of no gradient", op->name);
}

int main(void)
{
    int n = 0;

    for (const est_op *const *op = est_op_table(); *op != NULL; op++, n++) {
        est_signature signature;

        CHECK(est_op_find((*op)->name) == *op, "%s", (*op)->name);
        CHECK(est_signature_parse(*op, &signature) == EST_OK, "%s", est_error_message());
        CHECK(((*op)->writes != 0) == ((*op)->update != NULL),
              "%s: an op that writes a variable says by EST_UPDATE what "
              "it takes, and no other does",
              (*op)->name);
        if ((*op)->update != NULL) check_update(*op, &signature);
        CHECK((*op)->infer != NULL, "%s has no shape function", (*op)->name);
        CHECK((*op)->cpu != NULL || (*op)->alias || (*op)->source != EST_SOURCE_NONE || signature.n_out == 0 ||
                  (*op)->replaced || ((*op)->planned && (*op)->cuda != NULL),
              "%s can neither run nor be left out", (*op)->name);
    }
    for (const est_op *const *op = est_op_table(); *op != NULL; op++) { /* op_check.h runs what they lower to */
        bool ours = strncmp((*op)->name, "Est", 3) == 0;

        CHECK(ours || ((*op)->lower == NULL && !(*op)->planned), "%s is TensorFlow's own", (*op)->name);
        if (*op == &est_op_text_words) continue; /* TensorFlow's are regular expressions: not exported */
        CHECK(!ours || (*op)->planned == ((*op)->lower == NULL), "%s must lower to TensorFlow's ops", (*op)->name);
    }
    CHECK(n > 20);
    CHECK(est_op_find("NoSuchOp") == NULL && est_op_find("") == NULL);
    return graph_test_failures != 0;
}
