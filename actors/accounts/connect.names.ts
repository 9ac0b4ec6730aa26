/** The kind names of the account flows. Every flow has its own actor key. */
export const DEVICE_FLOW = 'device-flow'
export const OAUTH_REDIRECT = 'journey'
