/** The service manager of a macOS user: launchd, asked by `launchctl`. */
import { join } from 'node:path'
import { quoteWord } from '../../protocol/quote-word.ts'
import { EXIT, ExitError } from '../exit.ts'
import { dataDirOfLaunchAgent, formatLaunchAgent, LAUNCH_AGENT_LABEL } from './launch-agent.ts'
import { firstLine, type ManagerRunner } from './run-manager.ts'
import type { Service, ServiceCommand, ServiceManager, ServiceState } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'

export interface LaunchdUser {
  readonly uid: number
  readonly home: string
}

export function createLaunchd(program: ServiceProgram, { uid, home }: LaunchdUser): ServiceManager {
  const domain = `gui/${uid}`
  const target = `${domain}/${LAUNCH_AGENT_LABEL}`
  const file = join(home, 'Library', 'LaunchAgents', `${LAUNCH_AGENT_LABEL}.plist`)
  const logFile = join(home, 'Library', 'Logs', 'switchyard.log')
  const bootout: ServiceCommand = { words: ['launchctl', 'bootout', target], mayFail: true }
  const host: Service = {
    role: 'host',
    file,
    format: (words, stopSeconds) => formatLaunchAgent(program, { words, stopSeconds, logFile }),
    logCommand: `tail -n 20 ${quoteWord(logFile)}`,
    commandsFor: (change) => [
      ...(change === 'new' ? [] : [bootout]),
      { words: ['launchctl', 'enable', target] },
      // bootout answers before the host has ended.
      { words: ['launchctl', 'bootstrap', domain, file], isRetried: true },
    ],
    beforeRemoval: [bootout],
    afterRemoval: [],
    readState: (run) => readState(run, domain, target),
  }
  return {
    name: 'launchd',
    host,
    requireRunning: (run) => requireSession(run, domain),
    dataDirIn: dataDirOfLaunchAgent,
    findSessionNote: async () => 'It ends when you log out, and starts when you log in.',
  }
}

async function requireSession(run: ManagerRunner, domain: string): Promise<void> {
  const { code, err } = await run(['launchctl', 'print', domain])
  if (code === 0) return
  throw new ExitError(
    EXIT.refused,
    code === undefined
      ? 'launchctl is not on the PATH'
      : `launchd has no session ${domain}: ${firstLine(err)}`,
    code === undefined
      ? 'PATH=/bin:$PATH switchyard service install'
      : 'log in on the screen of this machine',
  )
}

async function readState(run: ManagerRunner, domain: string, target: string): Promise<ServiceState> {
  const [service, disabled] = await Promise.all([
    run(['launchctl', 'print', target]),
    run(['launchctl', 'print-disabled', domain]),
  ])
  const isLoaded = service.code === 0
  const field = (name: string) => new RegExp(`^\\s*${name} = (.+)$`, 'm').exec(service.out)?.[1]
  const state = isLoaded ? (field('state') ?? 'loaded') : 'not loaded'
  const running = state === 'running'
  const [pid, exitCode] = [Number(field('pid')), Number.parseInt(field('last exit code') ?? '', 10)]
  return {
    enabled: !new RegExp(`"${LAUNCH_AGENT_LABEL}" => (?:disabled|true)`).test(disabled.out),
    running,
    state,
    ...(running && pid > 0 ? { pid } : {}),
    ...(!running && exitCode > 0 ? { exitCode } : {}),
  }
}
