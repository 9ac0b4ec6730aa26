/**
 * `switchyard oauth-helper`: starts and stops the public OAuth helper.
 *
 * The three secrets are removed from the environment, so that child processes and dumps cannot contain them. The helper
 * stores nothing, so any number of instances can run side by side.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import type { Log } from '../../../core/ports/log.ts'
import { type HelperServer, startHelperServer } from '../../../oauth-helper/server.ts'
import {
  type HelperSettings,
  readHelperSettings,
  SECRET_NAMES,
  type SecretName,
} from '../../../oauth-helper/settings.ts'
import { CREDENTIAL_CHARS_MAX, HELPER_DRAIN_MS_MAX, URL_CHARS_MAX } from '../../../protocol/limits.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { createHttp } from '../../../providers/http/http.ts'
import type { Http } from '../../../providers/http/http-types.ts'
import { realClock, realRandom } from '../../process/clock.ts'
import { forbidCoreDumps } from '../../process/core-dumps.ts'
import { EXIT, ExitError, unwrapOrExit } from '../../process/exit.ts'
import { openLog } from '../../process/log.ts'
import type { LogChoice } from '../../process/log-options.ts'
import { LogRedactor } from '../../process/log-redaction.ts'
import { readNetwork } from '../../process/network.ts'
import { loggedListener, urlOf } from '../../process/program-listener.ts'
import { installCrashHandler, StopSignals } from '../../process/signals.ts'

export interface OauthHelperOptions extends LogChoice {
  readonly host: string
  readonly port: number
  readonly trustProxy: number
  readonly requestsPerMinute: number
  readonly docsUrl: string
}

type HelperEnvironment = Record<string, string | undefined>

export async function oauthHelper(options: OauthHelperOptions): Promise<void> {
  const redactor = new LogRedactor()
  const log = openLog({ level: options.logLevel, format: options.logFormat, redactor })
  const signals = new StopSignals(log)
  installCrashHandler(log)
  forbidCoreDumps(log)
  const settings = readSettings(process.env)
  redactor.addSecrets([settings.tracker.clientSecret])
  const http = createHelperHttp(process.env)
  const helper = await startServer({ options, settings, http, log })
  const url = urlOf('http', options.host, helper.port)
  log.info({ url, requestsPerMinute: options.requestsPerMinute }, 'the OAuth helper is serving')
  await new Promise<void>((ended) => {
    signals.onStop((reason) => {
      // A hanging upstream must not delay the end.
      realClock.after(HELPER_DRAIN_MS_MAX + CLOSE_MARGIN_MS, () => process.exit(EXIT.done))
      void helper
        .close()
        .then(() => http.close())
        .then(() => log.info({ reason }, 'stopped'))
        .then(ended)
    })
  })
  process.exit(EXIT.done)
}

const CLOSE_MARGIN_MS = 1_000

async function startServer(parts: {
  readonly options: OauthHelperOptions
  readonly settings: HelperSettings
  readonly http: Http
  readonly log: Log
}): Promise<HelperServer> {
  const { options, settings, http, log } = parts
  const helper = await startHelperServer({
    settings,
    listener: loggedListener(log),
    http,
    log,
    clock: realClock,
    address: { host: options.host, port: options.port },
    docsUrl: options.docsUrl.slice(0, URL_CHARS_MAX),
    requestsPerMinute: options.requestsPerMinute,
    trustedProxies: options.trustProxy,
  })
  return unwrapOrExit(helper, EXIT.unavailable)
}

/** Creates the HTTP client with the machine's proxies and trusted authorities. */
function createHelperHttp(environment: HelperEnvironment): Http {
  return createHttp({
    clock: realClock,
    random: realRandom,
    ...unwrapOrExit(readNetwork(environment), EXIT.config),
  })
}

// ---- the environment -----------------------------------------------------------------------------------------------

function readSettings(environment: HelperEnvironment): HelperSettings {
  const secrets = Object.fromEntries(SECRET_NAMES.map((name) => [name, readSecret(environment, name)]))
  const { SWITCHYARD_TRACKER_URL = '', SWITCHYARD_CODEHOST_URL = '' } = environment
  const settings = readHelperSettings({
    secrets,
    trackerUrl: SWITCHYARD_TRACKER_URL,
    codehostUrl: SWITCHYARD_CODEHOST_URL,
  })
  return unwrapOrExit(settings, EXIT.config)
}

/** Reads a secret from its variable, or from the file that `…_FILE` names. */
function readSecret(environment: HelperEnvironment, name: SecretName): string {
  const [given, file] = [environment[name], environment[`${name}_FILE`]]
  delete environment[name]
  delete environment[`${name}_FILE`]
  if (given !== undefined && given !== '') return given.trim()
  return file === undefined || file === '' ? '' : readSecretFile(file, name)
}

function readSecretFile(path: string, name: SecretName): string {
  try {
    // Without O_NONBLOCK opening a named pipe would block for ever.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const stats = fstatSync(file)
      if (!stats.isFile() || stats.size > CREDENTIAL_CHARS_MAX)
        throw new Error('it is not a small regular file')
      return readFileSync(file, 'utf8').trim()
    } finally {
      closeSync(file)
    }
  } catch (error) {
    const why = messageOf(error)
    throw new ExitError(EXIT.config, `${name}_FILE: cannot read ${path}: ${why}`)
  }
}
