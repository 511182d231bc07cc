/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas of losses, for the losses of <estoc/losses.h>, which weigh and reduce them, and for those that have a
 * name (nn/loss_names.c). Labels have the dtype and the shape of the predictions: see est_loss_align(). */
#ifndef EST_NN_LOSS_H
#define EST_NN_LOSS_H

#include "nn/nn.h"

/* Casts labels to the predictions' dtype and brings them to their rank; false: they do not fit, and the graph fails. */
bool est_loss_align(est_node *labels, est_node predictions);

/* Takes a last axis of 1 off labels that are the numbers of classes, of which predictions have a column each. false:
 * they are no such numbers, and the graph fails. */
bool est_loss_numbers(est_node *labels, est_node predictions);

/* The loss of each element, or of each row where the formula is one of rows. */
typedef est_node (*est_loss_element)(est_node labels, est_node predictions, const est_loss_options *o);

est_node est_loss_squared_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_absolute_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_huber_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_hinge_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_poisson_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_cosine_of(est_node labels, est_node predictions, const est_loss_options *o);
est_node est_loss_softmax_xent_of(est_node labels, est_node logits, const est_loss_options *o);
est_node est_loss_sigmoid_xent_of(est_node labels, est_node logits, const est_loss_options *o);
est_node est_loss_log_xent_of(est_node labels, est_node p, const est_loss_options *o); /* of probabilities, clipped */

/* Labels of distributions smoothed towards 1 / classes; smoothing 0: as they are. */
est_node est_loss_smoothed_classes(est_node labels, est_node predictions, double smoothing);

/* What an activation made p of, if it is est_softmax (along the last axis) or est_sigmoid; else EST_NO_NODE. */
est_node est_logits_of_softmax(est_node p);
est_node est_logits_of_sigmoid(est_node p);

#endif
