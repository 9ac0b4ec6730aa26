/** The names under which the lives of a worker daemon live, by themselves so that they can speak of each other. */
export const DAEMON = 'daemon'
export const LINK = 'link'
export const EXECUTION = 'execution'
export const BOOTED = 'booted'
