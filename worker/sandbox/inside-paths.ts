/** The paths and ports that every sandbox has inside, whichever provider makes it. */

export const WORK = '/work'
export const HOME = '/home/agent'
export const EGRESS_SOCKET = '/run/egress.sock'
export const MODEL_SOCKET = '/run/model-api.sock'
/** Above the ephemeral ports of common systems, beside that of the egress proxy. */
export const MODEL_API_PORT = 61_081

/** Paths of a run's files and programs, as seen from inside its sandbox. */
export const OUT_INSIDE = '/out'
export const ARTIFACTS_INSIDE = `${OUT_INSIDE}/artifacts`
export const MEMORIES_INSIDE = `${OUT_INSIDE}/memories`
/** Programs of our own that run inside. */
export const PROGRAMS_INSIDE = '/opt/switchyard'
/** Node, where the machine's own lies outside of /usr. */
export const NODE_INSIDE = '/opt/switchyard-node/node'
export const CODEHOST_CREDENTIAL_INSIDE = '/run/cred/codehost'
