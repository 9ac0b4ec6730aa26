/** The paths and ports that every sandbox has inside, whichever provider makes it. */

export const WORK = '/work'
export const HOME = '/home/agent'
export const EGRESS_SOCKET = '/run/egress.sock'
export const MODEL_SOCKET = '/run/model-api.sock'
/** Above the ephemeral ports of common systems, beside that of the egress proxy. */
export const MODEL_API_PORT = 61_081
