/** The actor kind of leases, in a file of its own so that the machines of runs and leases can name each other. */
export const LEASE = 'lease'
