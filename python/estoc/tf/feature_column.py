# SPDX-License-Identifier: Apache-2.0
"""tf.feature_column"""
from ..feature_column import (bucketized_column, categorical_column_with_hash_bucket,  # noqa: F401
                              categorical_column_with_identity, categorical_column_with_vocabulary_file,
                              categorical_column_with_vocabulary_list, crossed_column, embedding_column,
                              indicator_column, make_parse_example_spec, numeric_column,
                              sequence_categorical_column_with_hash_bucket, sequence_categorical_column_with_identity,
                              sequence_categorical_column_with_vocabulary_file,
                              sequence_categorical_column_with_vocabulary_list, sequence_numeric_column,
                              shared_embeddings, weighted_categorical_column)
from ._absent import module_getattr as _module_getattr

__getattr__ = _module_getattr(__name__)
