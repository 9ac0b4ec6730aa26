/** The names under which the lives of a worker daemon live, by themselves so that they can speak of each other. */
export const DAEMON = 'daemon'
export const HOST_CONNECTION = 'link'
export const EXECUTION = 'execution'
export const RESUMED_SANDBOX = 'booted'
