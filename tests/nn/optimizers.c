/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers against trajectories computed here in double: several steps on a quadratic, with a dense gradient and with
 * a sparse one that has duplicates and leaves rows out; then the training operation around them. */
#include "ops/ops.h"
#include "support/nn_test.h"

#define ROWS  4
#define STEPS 6
#define RATE  0.125 /* exact in float32 */

/* The state of one element and a step of an optimizer on it; `touched` is false for rows without a gradient. */
typedef struct cell {
    double w, a, b, c;
} cell;
typedef void (*step_fn)(cell *x, double g, bool touched, int t);

typedef struct optimizer_case {
    const char   *label;
    est_optimizer optimizer;
    step_fn       step;
    double        a0, b0, c0; /* first values of the slots */
    const char   *slot[3];    /* names behind "w/", or whole names; which of a, b, c they are */

} optimizer_case;

static void sgd_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    (void)t;
    x->w -= RATE * g;
}

static void momentum_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a = 0.75 * x->a + g;
    x->w -= RATE * x->a;
}

static void nesterov_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a = 0.75 * x->a + g;
    x->w -= RATE * g + RATE * 0.75 * x->a;
}

static void keras_momentum_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a = 0.75 * x->a - RATE * g;
    x->w += x->a;
}

static void keras_nesterov_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a = 0.75 * x->a - RATE * g;
    x->w += 0.75 * x->a - RATE * g;
}

static void adagrad_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a += g * g;
    x->w -= RATE * g / sqrt(x->a);
}

static void keras_adagrad_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a += g * g;
    x->w -= RATE * g / (sqrt(x->a) + 0.01);
}

static void adam_moves(cell *x, double g, int t, double epsilon)
{
    double rate = RATE * sqrt(1 - pow(0.99, t)) / (1 - pow(0.5, t));

    x->a += (g - x->a) * 0.5;
    x->b += (g * g - x->b) * (1 - 0.99);
    x->w -= rate * x->a / (sqrt(x->b) + epsilon);
}

static void adam_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    adam_moves(x, g, t, 1e-8);
}

static void lazy_adam_step(cell *x, double g, bool touched, int t)
{
    if (touched) adam_moves(x, g, t, 1e-8);
}

static void keras_adam_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    adam_moves(x, g, t, 1e-7);
}

/* c: the largest b so far */
static void amsgrad_step(cell *x, double g, bool touched, int t)
{
    double rate = RATE * sqrt(1 - pow(0.99, t)) / (1 - pow(0.5, t));

    (void)touched;
    x->a += (g - x->a) * 0.5;
    x->b += (g * g - x->b) * 0.01;
    x->c = fmax(x->c, x->b);
    x->w -= rate * x->a / (sqrt(x->c) + 1e-7);
}

static void rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a += (g * g - x->a) * 0.25;
    x->b = 0.5 * x->b + RATE * g / sqrt(x->a + 1e-10);
    x->w -= x->b;
}

static void centered_rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (!touched) return;
    x->a += (g * g - x->a) * 0.25;
    x->b += (g - x->b) * 0.25;
    x->c = 0.5 * x->c + RATE * g / sqrt(x->a - x->b * x->b + 1e-3);
    x->w -= x->c;
}

/* ms decays everywhere, w moves where there is a gradient (g is 0 elsewhere). */
static void keras_rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    (void)touched;
    x->a = 0.75 * x->a + 0.25 * g * g;
    if (g != 0) x->w -= RATE * g / (sqrt(x->a) + 1e-7);
}

static void keras_centered_rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    (void)touched;
    x->a = 0.75 * x->a + 0.25 * g * g;
    x->b = 0.75 * x->b + 0.25 * g;
    if (g != 0) x->w -= RATE * g / (sqrt(x->a - x->b * x->b) + 1e-2);
}

/* With dense gradients a row without one moves by its momentum. */
static void dense_keras_momentum_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    keras_momentum_step(x, g, true, t);
}

static void dense_rms_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    rms_step(x, g, true, t);
}

static void ftrl_moves(cell *x, double g, double power, double l1, double l2, double shrinkage)
{
    double n = x->a + g * g, z;

    x->b += g + 2 * shrinkage * x->w - (pow(n, -power) - pow(x->a, -power)) / RATE * x->w;
    z    = x->b;
    x->w = fabs(z) <= l1 ? 0 : (copysign(l1, z) - z) / (pow(n, -power) / RATE + 2 * l2);
    x->a = n;
}

static void ftrl_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (touched) ftrl_moves(x, g, -0.5, 0, 0, 0);
}

static void dense_ftrl_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    ftrl_step(x, g, true, t);
}

static void ftrl_l1_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    if (touched) ftrl_moves(x, g, -0.75, 0.25, 0.5 + 0.5 / (2 * RATE), 0.1);
}

static void adadelta_step(cell *x, double g, bool touched, int t)
{
    double u;

    (void)t;
    if (!touched) return;
    x->a = 0.75 * x->a + 0.25 * g * g;
    u    = sqrt(x->b + 1e-3) / sqrt(x->a + 1e-3) * g;
    x->b = 0.75 * x->b + 0.25 * u * u;
    x->w -= RATE * u;
}

/* epsilon under the root. */
static void newer_rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    (void)touched;
    x->a = 0.75 * x->a + 0.25 * g * g;
    if (g != 0) x->w -= RATE * g / sqrt(x->a + 1e-2);
}

static void newer_centered_rms_step(cell *x, double g, bool touched, int t)
{
    (void)t;
    (void)touched;
    x->a = 0.75 * x->a + 0.25 * g * g;
    x->b = 0.75 * x->b + 0.25 * g;
    if (g != 0) x->w -= RATE * g / sqrt(x->a - x->b * x->b + 1e-2);
}

static void adamax_step(cell *x, double g, bool touched, int t)
{
    (void)touched;
    x->a += (g - x->a) * 0.5;
    x->b = fmax(0.99 * x->b, fabs(g));
    x->w -= RATE / (1 - pow(0.5, t)) * x->a / (x->b + 1e-3);
}

static void lazy_adamax_step(cell *x, double g, bool touched, int t)
{
    if (touched) adamax_step(x, g, true, t);
}

/* c is the product of the momentums. */
static void nadam_step(cell *x, double g, bool touched, int t)
{
    double now = 0.5 * (1 - 0.5 * pow(0.96, t)), next = 0.5 * (1 - 0.5 * pow(0.96, t + 1)), n;

    (void)touched;
    x->a += (g - x->a) * 0.5;
    x->b += (g * g - x->b) * (1 - 0.99);
    x->c *= now;
    n = next * x->a / (1 - x->c * next) + (1 - now) * g / (1 - x->c);
    x->w -= RATE * n / (sqrt(x->b / (1 - pow(0.99, t))) + 1e-3);
}

static void lion_step(cell *x, double g, bool touched, int t)
{
    double way = 0.5 * x->a + 0.5 * g;

    (void)touched;
    (void)t;
    x->w -= RATE * (way > 0 ? 1 : way < 0 ? -1 : 0);
    x->a = 0.75 * x->a + 0.25 * g;
}

/* Every weight decays, whether its row has a gradient or not. */
static void decayed_momentum_step(cell *x, double g, bool touched, int t)
{
    x->w -= RATE * 0.25 * x->w;
    keras_momentum_step(x, g, touched, t);
}

static void adam_w_step(cell *x, double g, bool touched, int t)
{
    x->w -= RATE * 0.25 * x->w;
    keras_adam_step(x, g, touched, t);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static const double target[ROWS] = { 1, -2, 0.5, 3 };
static const double start[ROWS]  = { 0.25, 0.5, -0.75, 1 };
/* The rows of odd and of even steps, with duplicates: what a row without a gradient does in between is seen later. */
static const int32_t ids[2][5] = { { 1, 2, 1, 3, 3 }, { 2, 0, 2, 2, 0 } };

static est_node start_values(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    (void)self;
    return est_cast(nn_const(graph, shape, start), dtype);
}

/* Half the sum of squares of w - target, over all rows or over the rows of ids, each as often as it occurs. */
static est_node loss_of(nn_test *t, est_node w, est_node picks)
{
    est_dtype dtype  = est_variable_dtype(w);
    est_node  wanted = est_cast(nn_const(t->graph, EST_SHAPE(ROWS, 1), target), dtype);

    if (picks.graph == NULL) return est_l2_loss(est_sub(est_read_variable(w), wanted));
    return est_l2_loss(est_sub(est_resource_gather(w, picks), est_gather(wanted, picks, 0)));
}

/* How often a row occurs in the ids of a step. */
static int times_in(int row, int step)
{
    int times = 0;

    for (int i = 0; i < 5; i++) times += ids[step % 2][i] == row;
    return times;
}

static void check_slots(nn_test *t, const optimizer_case *c, const cell *x, double tol)
{
    for (int s = 0; s < 3 && c->slot[s] != NULL; s++) {
        char   name[64];
        double got[ROWS];

        snprintf(name, sizeof name, strchr(c->slot[s], '/') != NULL ? "%s" : "w/%s", c->slot[s]);
        assert_int_equal(nn_read(t, name, got, ROWS), ROWS);
        for (int i = 0; i < ROWS; i++) {
            double want = s == 0 ? x[i].a : s == 1 ? x[i].b : x[i].c;
            if (fabs(got[i] - want) > tol * fmax(1, fabs(want))) {
                fail_msg("%s: %s row %d is %.9g, expected %.9g", c->label, name, i, got[i], want);
            }
        }
    }
}

static void run_step(nn_test *t, est_node train, est_node picks, int step)
{
    est_tensor *rows = NULL;

    if (picks.graph == NULL) {
        nn_run(t, train);
        return;
    }
    assert_ok(est_tensor_create_from(EST_I32, EST_SHAPE(5), ids[step % 2], &rows));
    assert_ok(est_session_run(t->session, EST_FEEDS({ picks, rows }), (est_nodes){ 0 }, EST_NODES(train), NULL));
    est_tensor_free(rows);
}

static void check_optimizer(const optimizer_case *c, est_dtype dtype, bool sparse)
{
    nn_test         t    = nn_begin(1);
    est_initializer init = { .make = start_values };
    est_node        w = est_weight(t.graph, "w", EST_SHAPE(ROWS, 1), EST_WEIGHT(.dtype = dtype, .initializer = init));
    est_node        picks = sparse ? est_placeholder(t.graph, "ids", EST_I32, EST_SHAPE(5)) : EST_NO_NODE;
    est_node        train = est_minimize(c->optimizer, loss_of(&t, w, picks), NULL);
    double          tol   = dtype == EST_F32 ? 2e-5 : 2e-6, got[ROWS], step;
    cell            x[ROWS];

    nn_ready(&t);
    for (int i = 0; i < ROWS; i++) x[i] = (cell){ start[i], c->a0, c->b0, c->c0 };
    for (int s = 1; s <= STEPS; s++) {
        run_step(&t, train, picks, s);
        for (int i = 0; i < ROWS; i++) {
            int times = sparse ? times_in(i, s) : 1;
            c->step(&x[i], times * (x[i].w - target[i]), times > 0, s);
        }
        nn_read(&t, "w", got, ROWS);
        for (int i = 0; i < ROWS; i++) {
            if (fabs(got[i] - x[i].w) > tol * fmax(1, fabs(x[i].w))) {
                fail_msg("%s, %s %s, step %d: row %d is %.9g, expected %.9g", c->label, est_dtype_name(dtype),
                         sparse ? "sparse" : "dense", s, i, got[i], x[i].w);
            }
        }
    }
    check_slots(&t, c, x, tol);
    nn_read(&t, "global_step", &step, 1);
    assert_near(step, STEPS, 0);
    nn_end(&t);
}

TEST(trajectories)
{
    const est_optimizer  adam    = est_adam(RATE, EST_ADAM(.beta1 = 0.5, .beta2 = 0.99));
    const optimizer_case cases[] = {
        { "sgd", est_sgd(RATE), sgd_step, .slot = { 0 } },
        { "momentum", est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75)), momentum_step, .slot = { "Momentum" } },
        { "nesterov", est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .nesterov = true)), nesterov_step,
          .slot = { "Momentum" } },
        { "keras momentum", est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .keras = true)), keras_momentum_step,
          .slot = { "training/SGD/w/momentum" } },
        { "keras nesterov", est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .keras = true, .nesterov = true)),
          keras_nesterov_step, .slot = { "training/SGD/w/momentum" } },
        { "adagrad", est_adagrad(RATE, NULL), adagrad_step, .a0 = 0.1, .slot = { "Adagrad" } },
        { "keras adagrad", est_adagrad(RATE, EST_ADAGRAD(.keras = true, .epsilon = 0.01, .initial_accumulator = 0.5)),
          keras_adagrad_step, .a0 = 0.5, .slot = { "training/Adagrad/w/accumulator" } },
        { "adam", adam, adam_step, .slot = { "Adam", "Adam_1" } },
        { "lazy adam", est_adam(RATE, EST_ADAM(.lazy = true, .beta1 = 0.5, .beta2 = 0.99)), lazy_adam_step,
          .slot = { "Adam", "Adam_1" } },
        { "keras adam", est_adam(RATE, EST_ADAM(.beta1 = 0.5, .beta2 = 0.99, .keras = true)), keras_adam_step,
          .slot = { "training/Adam/w/m", "training/Adam/w/v" } },
        { "amsgrad", est_adam(RATE, EST_ADAM(.beta1 = 0.5, .beta2 = 0.99, .keras = true, .amsgrad = true)),
          amsgrad_step, .slot = { "training/Adam/w/m", "training/Adam/w/v", "training/Adam/w/vhat" } },
        { "rmsprop", est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .momentum = 0.5)), rms_step, .a0 = 1,
          .slot = { "RMSProp", "RMSProp_1" } },
        { "centered rmsprop",
          est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .momentum = 0.5, .epsilon = 1e-3, .centered = true)),
          centered_rms_step, .a0 = 1, .slot = { "RMSProp", "RMSProp_1", "RMSProp_2" } },
        { "keras rmsprop", est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .keras = true)), keras_rms_step,
          .slot = { "training/RMSprop/w/rms" } },
        { "keras centered rmsprop",
          est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .keras = true, .centered = true, .epsilon = 1e-2)),
          keras_centered_rms_step, .slot = { "training/RMSprop/w/rms", "training/RMSprop/w/mg" } },
        { "newer rmsprop",
          est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .keras = true, .epsilon = 1e-2, .epsilon_inside = true)),
          newer_rms_step, .slot = { "training/RMSprop/w/rms" } },
        { "newer centered rmsprop",
          est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .keras = true, .centered = true, .epsilon = 1e-2,
                                          .epsilon_inside = true)),
          newer_centered_rms_step, .slot = { "training/RMSprop/w/rms", "training/RMSprop/w/mg" } },
        { "adamax", est_adamax(RATE, EST_ADAMAX(.beta1 = 0.5, .beta2 = 0.99, .epsilon = 1e-3)), adamax_step,
          .slot = { "training/Adamax/w/m", "training/Adamax/w/v" } },
        { "lazy adamax", est_adamax(RATE, EST_ADAMAX(.beta1 = 0.5, .beta2 = 0.99, .epsilon = 1e-3, .lazy = true)),
          lazy_adamax_step, .slot = { "training/Adamax/w/m", "training/Adamax/w/v" } },
        { "nadam", est_nadam(RATE, EST_NADAM(.beta1 = 0.5, .beta2 = 0.99, .epsilon = 1e-3)), nadam_step, .c0 = 1,
          .slot = { "training/Nadam/w/m", "training/Nadam/w/v" } },
        { "lion", est_lion(RATE, EST_LION(.beta1 = 0.5, .beta2 = 0.75)), lion_step, .slot = { "training/Lion/w/m" } },
        { "momentum with weight decay",
          est_with_weight_decay(est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .keras = true)), 0.25,
                                EST_STRINGS("bias")),
          decayed_momentum_step, .slot = { "training/SGD/w/momentum" } },
        { "momentum of dense gradients",
          est_with_dense_gradients(est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .keras = true))),
          dense_keras_momentum_step, .slot = { "training/SGD/w/momentum" } },
        { "rmsprop of dense gradients",
          est_with_dense_gradients(est_rms_prop(RATE, EST_RMS_PROP(.decay = 0.75, .momentum = 0.5))), dense_rms_step,
          .a0 = 1, .slot = { "RMSProp", "RMSProp_1" } },
        { "ftrl of dense gradients", est_with_dense_gradients(est_ftrl(RATE, NULL)), dense_ftrl_step, .a0 = 0.1,
          .slot = { "Ftrl", "Ftrl_1" } },
        { "decay of other variables",
          est_with_weight_decay(est_momentum(RATE, EST_MOMENTUM(.momentum = 0.75, .keras = true)), 0.25,
                                EST_STRINGS("bias", "w")),
          keras_momentum_step, .slot = { "training/SGD/w/momentum" } },
        { "adamw",
          est_with_weight_decay(est_adam(RATE, EST_ADAM(.beta1 = 0.5, .beta2 = 0.99, .keras = true)), 0.25,
                                (est_strings){ 0 }),
          adam_w_step, .slot = { "training/Adam/w/m", "training/Adam/w/v" } },
        { "ftrl", est_ftrl(RATE, NULL), ftrl_step, .a0 = 0.1, .slot = { "Ftrl", "Ftrl_1" } },
        { "ftrl with l1",
          est_ftrl(RATE,
                   EST_FTRL(.learning_rate_power = -0.75, .l1 = 0.25, .l2 = 0.5, .beta = 0.5, .l2_shrinkage = 0.1)),
          ftrl_l1_step, .a0 = 0.1, .slot = { "Ftrl", "Ftrl_1" } },
        { "adadelta", est_adadelta(RATE, EST_ADADELTA(.rho = 0.75, .epsilon = 1e-3)), adadelta_step,
          .slot = { "Adadelta", "Adadelta_1" } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_optimizer(&cases[i], EST_F64, false);
        check_optimizer(&cases[i], EST_F64, true);
        check_optimizer(&cases[i], EST_F32, false);
        check_optimizer(&cases[i], EST_F32, true);
    }
}

/* From zero with g = 1: the worked values of the estimator's documentation. */
TEST(worked_values)
{
    const struct {
        est_optimizer optimizer;
        double        w;
    } cases[] = {
        { est_ftrl(0.2, NULL), -0.1906925 },
        { est_adagrad(0.05, NULL), -0.0476731 },
        { est_adagrad(0, EST_ADAGRAD(.keras = true)), -0.00095346 },
        { est_sgd(0), -0.01 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nn_test  t     = nn_begin(1);
        est_node w     = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
        est_node train = est_minimize(cases[i].optimizer, est_read_variable(w), NULL);
        double   got;

        nn_ready(&t);
        nn_run(&t, train);
        nn_read(&t, "w", &got, 1);
        assert_near(got * 100, cases[i].w * 100, 1e-5);
        nn_end(&t);
    }
}

/* --- around the update -------------------------------------------------------------------------------------------- */

/* Two variables with gradients 3 and 4, sgd with rate 1: what clipping leaves of them. */
static void check_clipping(est_minimize_options options, double da, double db)
{
    nn_test  t     = nn_begin(1);
    est_node a     = est_weight(t.graph, "a", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node b     = est_weight(t.graph, "b", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node loss  = est_add(est_scale(est_read_variable(a), 3), est_scale(est_read_variable(b), 4));
    est_node train = est_minimize(est_sgd(1), loss, &options);
    double   got;

    nn_ready(&t);
    nn_run(&t, train);
    nn_read(&t, "a", &got, 1);
    assert_near(got, -da, 1e-6);
    nn_read(&t, "b", &got, 1);
    assert_near(got, -db, 1e-6);
    nn_end(&t);
}

TEST(clipping)
{
    check_clipping(*EST_MINIMIZE(.name = NULL), 3, 4);
    check_clipping(*EST_MINIMIZE(.clip_value = 3.5), 3, 3.5);
    check_clipping(*EST_MINIMIZE(.clip_norm = 2), 2, 2);
    check_clipping(*EST_MINIMIZE(.clip_global_norm = 1), 0.6, 0.8);
}

/* The rate of step s is that of the counter before the step; Adam's powers move once; update ops run. */
TEST(schedule_and_counter)
{
    nn_test  t = nn_begin(1);
    est_node w = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node train;
    double   got;

    train = est_minimize(est_with_schedule(est_sgd(0), est_exponential_decay(1, 1, 0.5, false)), est_read_variable(w),
                         EST_MINIMIZE(.name = "train"));
    assert_string_equal(est_node_name(train), "train");
    nn_ready(&t);
    for (int i = 0; i < 3; i++) nn_run(&t, train);
    nn_read(&t, "w", &got, 1);
    assert_near(got, -(1 + 0.5 + 0.25), 1e-6);
    nn_end(&t);

    t     = nn_begin(1);
    w     = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    train = est_minimize(est_adam(0.1, NULL), est_read_variable(w), NULL);
    nn_ready(&t);
    for (int i = 0; i < 3; i++) nn_run(&t, train);
    nn_read(&t, "beta1_power", &got, 1);
    assert_near(got, pow(0.9, 4), 1e-6);
    nn_read(&t, "beta2_power", &got, 1);
    assert_near(got, pow(0.999, 4), 1e-6);
    nn_end(&t);
}

/* Two optimizers over parts of one model count the step once. */
TEST(two_optimizers)
{
    nn_test  t     = nn_begin(1);
    est_node a     = est_weight(t.graph, "a", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node b     = est_weight(t.graph, "b", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node loss  = est_add(est_read_variable(a), est_read_variable(b));
    est_node first = est_minimize(est_sgd(1), loss, EST_MINIMIZE(.variables = EST_NODES(a), .no_global_step = true));
    est_node other = est_minimize(est_adagrad(1, NULL), loss, EST_MINIMIZE(.variables = EST_NODES(b)));
    double   got;

    nn_ready(&t);
    nn_run(&t, est_group(t.graph, EST_NODES(first, other)));
    nn_read(&t, "global_step", &got, 1);
    assert_near(got, 1, 0);
    nn_read(&t, "a", &got, 1);
    assert_near(got, -1, 0);
    nn_read(&t, "b", &got, 1);
    assert_near(got, -1 / sqrt(1.1), 1e-6);
    nn_end(&t);
}

/* A variable of one element set from outside, as a restored checkpoint does. */
static void set_scalar(nn_test *t, const char *name, float value)
{
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &value, &tensor));
    assert_ok(est_session_write(t->session, name, tensor));
    est_tensor_free(tensor);
}

/* Keras optimizers keep their numbers in variables, and those count; a second one of a kind has names and a counter of
 * its own. */
TEST(keras_variables)
{
    nn_test       t    = nn_begin(1);
    est_node      a    = est_weight(t.graph, "a", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node      b    = est_weight(t.graph, "b", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_node      loss = est_add(est_read_variable(a), est_read_variable(b)), first, second;
    est_optimizer adam = est_adam(0.1, EST_ADAM(.keras = true));
    double        got;

    first  = est_minimize(adam, loss, EST_MINIMIZE(.variables = EST_NODES(a)));
    second = est_minimize(adam, loss, EST_MINIMIZE(.variables = EST_NODES(b), .no_global_step = true));
    nn_ready(&t);
    nn_read(&t, "training/Adam/beta_1", &got, 1);
    assert_near(got, 0.9, 1e-7);
    nn_read(&t, "training/Adam/decay", &got, 1);
    assert_near(got, 0, 0);
    set_scalar(&t, "training/Adam_1/learning_rate", 0.5F);
    nn_run(&t, est_group(t.graph, EST_NODES(first, second)));
    nn_read(&t, "a", &got, 1);
    assert_near(got, -0.1 * sqrt(0.001) / (sqrt(0.001) + 1e-7), 1e-6);
    nn_read(&t, "b", &got, 1);
    assert_near(got, -0.5 * sqrt(0.001) / (sqrt(0.001) + 1e-7), 1e-6);
    nn_read(&t, "global_step", &got, 1);
    assert_near(got, 1, 0);
    nn_read(&t, "training/Adam_1/iter", &got, 1);
    assert_near(got, 1, 0);
    nn_read(&t, "training/Adam_1/b/v", &got, 1);
    nn_end(&t);
}

TEST(slot_scope)
{
    nn_test  t = nn_begin(1);
    est_node w = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros())), train;
    double   got;

    train = est_minimize(est_adagrad(1, NULL), est_read_variable(w), EST_MINIMIZE(.slot_scope = "part_0"));
    nn_ready(&t);
    nn_run(&t, train);
    nn_read(&t, "w/part_0/Adagrad", &got, 1);
    assert_near(got, 1.1, 1e-6);
    nn_end(&t);

    t     = nn_begin(1);
    w     = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    train = est_minimize(est_adagrad(1, EST_ADAGRAD(.keras = true)), est_read_variable(w),
                         EST_MINIMIZE(.slot_scope = "training_2"));
    nn_ready(&t);
    nn_run(&t, train);
    nn_read(&t, "training_2/Adagrad/w/accumulator", &got, 1);
    assert_near(got, 1.1, 1e-6);
    nn_read(&t, "training_2/Adagrad/learning_rate", &got, 1);
    assert_near(got, 1, 0);
    nn_end(&t);
}

TEST(refusals)
{
    nn_test       t = nn_begin(1);
    est_optimizer optimizer;

    (void)est_minimize(est_sgd(1), est_scalar(t.graph, EST_F32, 1), NULL);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no trainable variables"));
    nn_end(&t);

    t = nn_begin(1);
    (void)est_weight(t.graph, "w", EST_SHAPE_SCALAR, NULL);
    (void)est_minimize(est_sgd(1), est_scalar(t.graph, EST_F32, 1), NULL);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "nothing to train"));
    nn_end(&t);

    t = nn_begin(1);
    (void)est_weight(t.graph, "w", EST_SHAPE_SCALAR, NULL);
    (void)est_minimize(est_with_weight_decay(est_sgd(1), NAN, (est_strings){ 0 }),
                       est_read_variable(est_trainable_variables(t.graph).data[0]), NULL);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the weight decay is nan"));
    nn_end(&t);

    assert_ok(est_optimizer_by_name("AdamW", 0, true, &optimizer));
    assert_near(optimizer.weight_decay, 0.004, 0);
    assert_ok(est_optimizer_by_name("RMSProp", 0, false, &optimizer));
    assert_near(optimizer.learning_rate, 0.001, 0);
    assert_int_equal(est_optimizer_by_name("Adamaxx", 0, false, &optimizer), EST_INVALID_ARGUMENT);
}

/* The number that an option becomes. */
#define TAKES(name, expression)                                                                                        \
    static double name(double v)                                                                                       \
    {                                                                                                                  \
        return (expression);                                                                                           \
    }
TAKES(rate_of, est_sgd(v).learning_rate)
TAKES(momentum_of, est_momentum(1, EST_MOMENTUM(.momentum = v)).hyper[0])
TAKES(adagrad_accumulator_of, est_adagrad(1, EST_ADAGRAD(.initial_accumulator = v)).hyper[0])
TAKES(adagrad_epsilon_of, est_adagrad(1, EST_ADAGRAD(.epsilon = v)).hyper[1])
TAKES(beta1_of, est_adam(1, EST_ADAM(.beta1 = v)).hyper[0])
TAKES(beta2_of, est_adam(1, EST_ADAM(.beta2 = v)).hyper[1])
TAKES(adam_epsilon_of, est_adam(1, EST_ADAM(.epsilon = v)).hyper[2])
TAKES(adamax_beta1_of, est_adamax(1, EST_ADAMAX(.beta1 = v)).hyper[0])
TAKES(adamax_beta2_of, est_adamax(1, EST_ADAMAX(.beta2 = v)).hyper[1])
TAKES(adamax_epsilon_of, est_adamax(1, EST_ADAMAX(.epsilon = v)).hyper[2])
TAKES(lion_beta1_of, est_lion(1, EST_LION(.beta1 = v)).hyper[0])
TAKES(lion_beta2_of, est_lion(1, EST_LION(.beta2 = v)).hyper[1])
TAKES(nadam_beta1_of, est_nadam(1, EST_NADAM(.beta1 = v)).hyper[0])
TAKES(nadam_beta2_of, est_nadam(1, EST_NADAM(.beta2 = v)).hyper[1])
TAKES(nadam_epsilon_of, est_nadam(1, EST_NADAM(.epsilon = v)).hyper[2])
TAKES(decay_of, est_rms_prop(1, EST_RMS_PROP(.decay = v)).hyper[0])
TAKES(rms_momentum_of, est_rms_prop(1, EST_RMS_PROP(.momentum = v)).hyper[1])
TAKES(rms_epsilon_of, est_rms_prop(1, EST_RMS_PROP(.epsilon = v)).hyper[2])
TAKES(power_of, est_ftrl(1, EST_FTRL(.learning_rate_power = v)).hyper[0])
TAKES(ftrl_accumulator_of, est_ftrl(1, EST_FTRL(.initial_accumulator = v)).hyper[1])
TAKES(rho_of, est_adadelta(1, EST_ADADELTA(.rho = v)).hyper[0])
TAKES(adadelta_epsilon_of, est_adadelta(1, EST_ADADELTA(.epsilon = v)).hyper[1])

/* 0 is the default, EST_OFF is 0, and every other number is itself: -1, -2 and -3 too, which have names as integers. */
TEST(off)
{
    static const est_ftrl_options off    = { .struct_size         = EST_STRUCT_SIZE(est_ftrl_options),
                                             .learning_rate_power = EST_OFF };
    static const double           kept[] = { -1, -2, -3, -0.5, 0.25, 1e300, -1e300 };
    static const struct {
        double (*of)(double v);
        double usual;
    } options[] = {
        { rate_of, 0.01 },
        { momentum_of, 0.9 },
        { adagrad_accumulator_of, 0.1 },
        { adagrad_epsilon_of, 1e-7 },
        { beta1_of, 0.9 },
        { beta2_of, 0.999 },
        { adam_epsilon_of, 1e-8 },
        { decay_of, 0.9 },
        { rms_momentum_of, 0 },
        { rms_epsilon_of, 1e-10 },
        { power_of, -0.5 },
        { ftrl_accumulator_of, 0.1 },
        { rho_of, 0.95 },
        { adadelta_epsilon_of, 1e-8 },
        { adamax_beta1_of, 0.9 },
        { adamax_beta2_of, 0.999 },
        { adamax_epsilon_of, 1e-7 },
        { lion_beta1_of, 0.9 },
        { lion_beta2_of, 0.99 },
        { nadam_beta1_of, 0.9 },
        { nadam_beta2_of, 0.999 },
        { nadam_epsilon_of, 1e-7 },
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        assert_true(options[i].of(0) == options[i].usual);
        assert_true(options[i].of(EST_OFF) == 0);
        for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++) assert_true(options[i].of(kept[k]) == kept[k]);
    }
    assert_true(est_ftrl(1, &off).hyper[0] == 0);
}
