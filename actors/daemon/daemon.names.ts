/** The names of the daemon's actor kinds, in a file of their own so that machines can address each other without an import cycle. */
export const DAEMON = 'daemon'
export const HOST_CONNECTION = 'link'
export const EXECUTION = 'execution'
export const RESUMED_SANDBOX = 'booted'
