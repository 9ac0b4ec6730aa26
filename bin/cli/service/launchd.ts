/** The service manager of a macOS user: launchd, asked by `launchctl`. */
import { join } from 'node:path'
import { quoteWord } from '../../../protocol/quote-word.ts'
import { refusedError } from '../../process/exit.ts'
import type { ServiceProgram } from './machine.ts'
import {
  BY_SWITCHYARD,
  firstLine,
  type ManagerRunner,
  type Service,
  type ServiceCommand,
  type ServiceManager,
  type ServiceState,
} from './service-manager.ts'

const LAUNCH_AGENT_LABEL = 'dev.switchyard.host'

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
  throw refusedError(
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

// ---- the property list ---------------------------------------------------------------------------------------------

/** launchd can't tell exit codes apart, so a host that can't start is tried again once in a minute. */
const THROTTLE_SECONDS = 60

interface AgentOptions {
  readonly words: readonly string[]
  readonly stopSeconds: number
  readonly logFile: string
}

/** Formats the property list of the host's LaunchAgent, for launchd of macOS. */
export function formatLaunchAgent(
  { node, script, home, environment }: ServiceProgram,
  { words, stopSeconds, logFile }: AgentOptions,
): string {
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${BY_SWITCHYARD} -->
<plist version="1.0">
<dict>
  <key>Label</key>
  ${text(LAUNCH_AGENT_LABEL)}
  <key>ProgramArguments</key>
  <array>
${[node, script, ...words].map((word) => `    ${text(word)}`).join('\n')}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${Object.entries(environment)
  .map(([name, value]) => `    <key>${name}</key>\n    ${text(value)}`)
  .join('\n')}
  </dict>
  <key>WorkingDirectory</key>
  ${text(home)}
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>${THROTTLE_SECONDS}</integer>
  <key>ExitTimeOut</key>
  <integer>${stopSeconds}</integer>
  <key>Umask</key>
  <integer>${0o077}</integer>
  <key>HardResourceLimits</key>
  <dict>
    <key>Core</key>
    <integer>0</integer>
  </dict>
  <key>StandardOutPath</key>
  <string>/dev/null</string>
  <key>StandardErrorPath</key>
  ${text(logFile)}
</dict>
</plist>
`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

const text = (value: string): string =>
  `<string>${value.replace(/[&<>]/g, (char) => ENTITIES[char] ?? char)}</string>`

/** Returns the data directory of a property list that `formatLaunchAgent` wrote. */
export function dataDirOfLaunchAgent(plist: string): string | undefined {
  const found = /<string>--data-dir<\/string>\s*<string>([^<]*)<\/string>/.exec(plist)?.[1]
  return found?.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
