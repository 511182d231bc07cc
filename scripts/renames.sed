# Brings a program, job file or script that was written for Estoc 0.1 (commit 0a7e186) to the names of 0.2. Apply it once:
#
#     sed -i -f scripts/renames.sed my_program.c my_job.yaml my_script.sh
#
# One line for each name, `s/\bold\b/new/g`; the file is one long line here, so \s may be the end of one of its lines.
# CHANGES.md has the same as tables, and lists what no pattern can do. `scripts/check renames` applies this file to the
# examples of 0a7e186.

:all
$!{
N
b all
}

# --- macros
s/\bEST_COLUMNS\b/EST_COLUMN_LIST/g
s/\bEST_LISTENERS\b/EST_SAVING_LISTENERS/g
s/\bEST_EXPORTER\b/EST_EXPORTER_OPTIONS/g

# --- functions and structs
s/\(\bEST_SESSION(\([^()]\|([^()]*)\)*\)\.peers\b/\1.communicator/g
s/\.peers\(\s*=\s*est_workers_peers\)\b/.communicator\1/g
s/\best_workers_peers\b/est_workers_communicator/g
s/\best_workers_meet\b/est_workers_join/g
s/\best_workers_number\b/est_workers_rank/g
s/\bstruct est_peers\b/struct est_communicator/g
s/\best_lazy_adam(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*NULL)/est_adam(\1, EST_ADAM(.lazy = true))/g
s/\best_lazy_adam(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*EST_ADAM(\s*/est_adam(\1, EST_ADAM(.lazy = true, /g

# --- options of multi_worker_mirrored, in C and in job files
s/\bgo_on\b/elastic/g
s/\breturn_secs\b/rejoin_secs/g

# --- environment variables
s/\bEST_LOG\b/ESTOC_LOG/g
s/\bEST_NUM_THREADS\b/ESTOC_NUM_THREADS/g

# --- make targets and files of the tree
s/\bestoc synth\b/build\/release\/bench\/synth/g
s/\bmake run-sync\b/make run-multi-worker/g
s/\bmake bench-sync\b/make bench-multi-worker/g
s/\bbench\/compare-sync\b/bench\/compare-multi-worker/g
s/\(\bmake chaos\b[^\n]*\bMODE=\)sync\b/\1sync_replicas/g
s/\(\bmake chaos\b[^\n]*\bMODE=\)sync_keys\b/\1sync_replicas_keys/g
s/\(\bmake chaos\b[^\n]*\bMODE=\)together\b/\1multi_worker/g
s/\(\bmake chaos\b[^\n]*\bMODE=\)together_keys\b/\1multi_worker_keys/g
s/\bdocs\/synchronous\.md\b/docs\/strategies.md/g
s/\b\(tfjob\|jobset\)-sync\.yaml\b/\1-multi-worker.yaml/g

# --- structs of functions: their macro fills struct_size
s/\.hook\( *\)= { \(\.[^{}]*\) }/.hook\1= EST_HOOK(\2)/g
s/\.listener\( *\)= { \(\.[^{}]*\) }/.listener\1= EST_SAVING_LISTENER(\2)/g
s/\.exporter\( *\)= { \(\.[^{}]*\) }/.exporter\1= EST_EXPORTER(\2)/g
s/\best_hook\( *[a-z_]* *= *\){ \(\.[^{}]*\) }/est_hook\1EST_HOOK(\2)/g
s/(est_hook){ \(\.[^{}]*\) }/(est_hook)EST_HOOK(\1)/g
s/\best_saving_listener\( *[a-z_]* *= *\){ \(\.[^{}]*\) }/est_saving_listener\1EST_SAVING_LISTENER(\2)/g
s/\best_exporter\( *[a-z_]* *= *\){ \(\.[^{}]*\) }/est_exporter\1EST_EXPORTER(\2)/g
s/&(est_generator){ \(\.[^{}]*\) }/EST_GENERATOR(\1)/g

# --- exporters take a pointer to what they export; before the members
s/\.saved_model\(\s*\)= {\s*\([^{}]*{[^{}]*}[^{}]*\) }/.saved_model\1= EST_EXPORT(\2)/g
s/\.saved_model\.input\(\s*\)= \({[^{}]*}\|[a-z_]*\)/.saved_model\1= EST_EXPORT(.input = \2)/g

# --- members: a pointer and a count become one list
s/\.addresses\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.addresses = { \1, \3 }/g
s/\.alternatives\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_alternatives\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.alternatives = { \1, \3 }/g
s/\.components\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_components\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.components = { \1, \3 }/g
s/\.compute_devices\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_devices\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.compute_devices = { \1, \3 }/g
s/\.default_value\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_default\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.default_value = { \1, \3 }/g
s/\.devices\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_devices\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.devices = { \1, \3 }/g
s/\.features\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_features\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.features = { \1, \3 }/g
s/\.field_names\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_fields\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.field_names = { \1, \3 }/g
s/\.jobs\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_jobs\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.jobs = { \1, \3 }/g
s/\.keys\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_keys\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.keys = { \1, \3 }/g
s/\.label_vocabulary\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_label_vocabulary\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.label_vocabulary = { \1, \3 }/g
s/\.meta\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.meta_size\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.meta = { \1, \3 }/g
s/\.metric_classes\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_metric_classes\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.metric_classes = { \1, \3 }/g
s/\.parse\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_parse\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.parse = { \1, \3 }/g
s/\.raw\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_raw\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.raw = { \1, \3 }/g
s/\.renames\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_renames\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.renames = { \1, \3 }/g
s/\.thresholds\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_thresholds\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.thresholds = { \1, \3 }/g
s/\.vocabs\s*= \(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\.n_vocabs\s*= \(\([^,(){}\n]\|([^()]*)\|{[^{}]*}\)*\)/.vocabs = { \1, \3 }/g

# --- parameters: the same
s/\best_bucketize(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\))/est_bucketize(\1, (est_f32s){ \3, \5 })/g
s/\best_cluster_create(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_cluster_create((est_jobs){ \1, \3 }, /g
s/\best_dataset_generator(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_dataset_generator((est_components){ \1, \3 }, /g
s/\best_dataset_parse_examples(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_dataset_parse_examples(\1, (est_feature_specs){ \3, \5 }, \7, /g
s/\best_example_parser_create(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_example_parser_create((est_feature_specs){ \1, \3 }, /g
s/\best_gradients(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_gradients(\1, (est_nodes){ \3, \5 }, /g
s/\best_logging_hook(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_logging_hook((est_named_nodes){ \1, \3 }, /g
s/\best_model_export_predict(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\))/est_model_export_predict(\1, \3, (est_named_nodes){ \5, \7 })/g
s/\best_multi_head(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*NULL,\s*/est_multi_head((est_heads){ \1, \3 }, (est_f64s){ 0 }, /g
s/\best_multi_head(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_multi_head((est_heads){ \1, \3 }, (est_f64s){ \5, \3 }, /g
s/\best_parse_examples(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_parse_examples(\1, (est_feature_specs){ \3, \5 }, /g
s/\best_ragged_cross(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_ragged_cross((est_ragged_nodes){ \1, \3 }, \5, /g
s/\best_vocabulary_strings_column(\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*\(\([^,(){}]\|([^()]*)\|{[^{}]*}\)*\),\s*/est_vocabulary_strings_column(\1, \3, (est_strings){ \5, \7 }, /g
s/\([a-z_.>-]*\) = est_parse_spec_features(\([^,]*\), &\([^()]*\));/\1 = est_parse_spec_features(\2);/g
