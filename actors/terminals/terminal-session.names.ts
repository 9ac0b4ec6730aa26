/** The kind of life that a booted sandbox has on the host; its key is the run's id. */
export const TERMINAL_SESSION = 'attach'
