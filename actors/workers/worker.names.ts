/** Names of the actor kinds of enrolled workers and their connections. */
export const WORKER = 'worker'
export const CONNECTION = 'connection'
