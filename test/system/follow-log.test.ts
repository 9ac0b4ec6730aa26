/**
 * `switchyard logs -f` with real processes: a host that is killed and connections that break, and no line is missing.
 */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type CommandProcess, runCommand } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { TcpRelay } from '../support/tcp-relay.ts'
import { until } from '../support/until.ts'

const LINES = 200_000
const ROUNDS = 40
const BREAKS = 10
const KILLS = [3, 7]
const TEST_MS_MAX = 400_000

/** Prints the lines over some seconds, so that there is something to miss. */
const SETUP = `for round in $(seq 0 ${ROUNDS - 1}); do seq $((round * ${LINES / ROUNDS} + 1)) $(((round + 1) * ${LINES / ROUNDS})); sleep 0.2; done`

/** A folder whose `launch.json` leads to the host through the relay. */
function writeLaunch(folder: string, host: CommandProcess, url: string): void {
  const launch = JSON.parse(readFileSync(join(host.dataDir, 'launch.json'), 'utf8'))
  writeFileSync(join(folder, 'launch.json'), JSON.stringify({ ...launch, url }), { mode: 0o600 })
}

test(
  'a log of 200,000 lines is followed to its end, byte for byte, over ten broken lines and two killed hosts',
  async () => {
    const system = await LocalSystem.open({
      local: false,
      repos: { plain: { remote: 'acme/plain', setup: SETUP } },
    })
    await system.pairWorker()
    const { url } = await system.host.waitForLaunch()
    const relay = await TcpRelay.startFor(Number(new URL(url).port))
    const folder = join(system.folder, 'client')
    mkdirSync(folder)
    writeLaunch(folder, system.host, relay.url)
    system.writeTicket('ENG-1', ['write hello.txt', '  Hello!', 'commit Hello', 'say Done.'])
    const run = await system.waitForStatus('ENG-1', 'preparing')

    const follower = runCommand(['logs', 'ENG-1', '-f', '--json', '--data-dir', folder])
    for (let count = 1; count <= BREAKS; count++) {
      const seen = follower.out().length
      await until('more lines arrive', () => follower.out().length > seen)
      relay.disconnect()
      if (KILLS.includes(count)) {
        system.host.process.kill('SIGKILL')
        await system.host.exit
        writeLaunch(folder, await system.startHost(), relay.url)
      }
      relay.restore()
    }
    const ended = await system.waitForEnd('ENG-1')
    expect([await follower.exit, ended.status, follower.err()]).toEqual([0, 'completed', ''])

    const file = join(system.dataDir, 'runs', run.id, 'events.jsonl')
    const events = await system.events(ended)
    const whole = events.map((event) => `${JSON.stringify(event)}\n`).join('')
    await until('all events are in the file', () => statSync(file).size >= Buffer.byteLength(whole))
    expect(readFileSync(file, 'utf8') === follower.out()).toBe(true)
    const texts = events.flatMap((event) => (event.type === 'log' ? event.text.split('\n') : []))
    expect(texts.filter((line) => /^\d+$/.test(line))).toHaveLength(LINES)
    const exported = runCommand(['runs', 'export', 'ENG-1', '--data-dir', folder])
    expect([await exported.exit, exported.out() === whole]).toEqual([0, true])
  },
  TEST_MS_MAX,
)
