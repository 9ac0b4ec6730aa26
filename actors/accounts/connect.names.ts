/** The kinds of lives of connecting. Each journey and each flow has a key of its own. */
export const DEVICE_FLOW = 'device-flow'
export const OAUTH_REDIRECT = 'journey'
