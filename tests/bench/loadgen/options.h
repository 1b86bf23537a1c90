/* The command line. */
#ifndef LOADGEN_OPTIONS_H
#define LOADGEN_OPTIONS_H

/* Fills state.options, or prints the usage and exits with 2. */
void options_parse(int argc, char **argv);

/* Lowers partitions-per-request to what the smallest broker leads. */
void options_fit_to_cluster(void);

#endif
