/** `workerEnvironment` selects the variables that a worker inherits from the program that starts it. */

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Variables that a worker does not inherit: this program's own settings, except the sandbox folder of this machine, and
 * all keys and tokens. A worker receives the credentials that it needs with each job.
 */
const REMOVED_VARIABLES = /^SWITCHYARD_(?!SANDBOX_DIR$)|_(TOKEN|API_?KEY|SECRET|PASSWORD)$/i

export const workerEnvironment = (environment: Environment): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !REMOVED_VARIABLES.test(name)))
