/** The name under which leases live, by themselves so that runs and leases can speak of each other. */
export const LEASE = 'lease'
