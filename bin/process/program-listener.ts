/** `chooseProgramListener` chooses the listener of this program, and says in the log why it is not the native one. */
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Log } from '../../core/ports/log.ts'
import { chooseListener, describeListener, type ListenerChoice } from '../../transport/choose-listener.ts'
import type { HttpListener } from '../../transport/listener-port.ts'

/** Set to `node`, it leaves the native listener out. */
const LISTENER_VARIABLE = 'SWITCHYARD_LISTENER'

export function chooseProgramListener(environment: NodeJS.ProcessEnv = process.env): ListenerChoice {
  const { platform, arch, versions } = process
  const wanted = environment[LISTENER_VARIABLE] === 'node' ? 'node' : undefined
  return chooseListener(
    binariesFolder(),
    { platform, arch, modules: versions.modules, node: versions.node },
    wanted,
  )
}

/** A native listener needs no line. */
export function logListener(choice: ListenerChoice, log: Log): void {
  if (choice.reason !== undefined) log.info({}, `listener: ${describeListener(choice)}`)
}

export function reportAlteredBinary({ alteredFile }: ListenerChoice, log: Log): void {
  if (alteredFile !== undefined)
    log.error(
      { file: alteredFile },
      'this binary of the native listener is not the released one and was not loaded; reinstall switchyard',
    )
}

/** The listener of a program that says at once which one it is. */
export function loggedListener(log: Log): HttpListener {
  const choice = chooseProgramListener()
  reportAlteredBinary(choice, log)
  logListener(choice, log)
  return choice.listener
}

/** The address of a listener; an IPv6 address stands in brackets. */
export function urlOf(scheme: string, host: string, port: number): string {
  const bare = host.replace(/^\[|\]$/g, '')
  return `${scheme}://${bare.includes(':') ? `[${bare}]` : bare}:${port}`
}

/** The build puts the binaries beside the program; a program from the sources uses those of the package. */
function binariesFolder(): string {
  const built = join(dirname(dirname(realpathSync(process.argv[1] ?? ''))), 'listener')
  if (existsSync(built)) return built
  try {
    return dirname(createRequire(import.meta.url).resolve('uWebSockets.js/package.json'))
  } catch {
    return built
  }
}
