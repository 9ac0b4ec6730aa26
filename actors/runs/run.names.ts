/** The name under which runs live, by themselves so that runs and leases can speak of each other. */
export const RUN = 'run'
