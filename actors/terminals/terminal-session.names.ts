/** Name of the actor kind of a terminal session on the host. The key of such an actor is the run's id. */
export const TERMINAL_SESSION = 'attach'
