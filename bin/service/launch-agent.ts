/** Formats the property list of the host's LaunchAgent, for launchd of macOS. */
import { BY_SWITCHYARD } from './service-manager.ts'
import type { ServiceProgram } from './service-program.ts'

export const LAUNCH_AGENT_LABEL = 'dev.switchyard.host'

/** launchd can't tell exit codes apart, so a host that can't start is tried again once in a minute. */
const THROTTLE_SECONDS = 60

export interface AgentOptions {
  readonly words: readonly string[]
  readonly stopSeconds: number
  readonly logFile: string
}

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
