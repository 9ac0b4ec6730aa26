/** The names under which enrolled workers and connections live. */
export const WORKER = 'worker'
export const CONNECTION = 'connection'
