/** Where a run's things are, as seen from inside its sandbox. */
export const OUT = '/out'
export const ARTIFACTS_INSIDE = `${OUT}/artifacts`
export const MEMORIES_INSIDE = `${OUT}/memories`
/** Programs of our own that run inside. */
export const OWN_PROGRAMS = '/opt/switchyard'
export const CODEHOST_CREDENTIAL = '/run/cred/codehost'
