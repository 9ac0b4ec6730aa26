/** The actor kind of runs, in a file of its own so that the machines of runs and leases can name each other. */
export const RUN = 'run'
