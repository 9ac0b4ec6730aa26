/**
 * A busy host in its own process, which tests kill at any moment: busy-host <data directory> <token>
 *
 * The production store, listeners and settings run here. Run records are rewritten endlessly in the host's store, and
 * actors of a test kind count as fast as the disk allows in a second store. Acknowledged writes are printed to standard
 * output, each line synchronously.
 */
import { writeSync } from 'node:fs'
import { join } from 'node:path'
import { createHost } from '../../actors/root/create-host.ts'
import { ActorSystem } from '../../actors/runtime/actor-system.ts'
import { realClock, realRandom } from '../../bin/process/clock.ts'
import { chooseProgramListener } from '../../bin/process/program-listener.ts'
import { yes } from '../../core/result.ts'
import { readConfig } from '../../core/settings/read.ts'
import { openStore } from '../../store/store.ts'
import { openHostServer } from '../../transport/server.ts'
import { putRun, sampleRun } from '../adapters/store/samples.ts'
import { TALLY, type TallyContext, type TallyEffect, tallyKind } from './counter-actor.ts'
import { noProviders } from './no-providers.ts'
import { createRecordingLog, noMeters, noTrail } from './recording-log.ts'

const ACTORS = 200
const RUNS = 50

const [dataDir = '', token = ''] = process.argv.slice(2)
const print = (line: string) => void writeSync(1, `${line}\n`)
const fail = (reason: string): never => {
  print(`failed ${reason}`)
  process.exit(1)
}
process.on('unhandledRejection', (error) => fail(String(error)))

const log = createRecordingLog()
const store = await openStore({ dataDir, clock: realClock, random: realRandom, log, meters: noMeters })
const configText = await store.config.read()
const configuration = readConfig(configText)
if (!configuration.ok) throw new Error(fail(configuration.refusal.message))

const actorStore = await openStore({
  dataDir: join(dataDir, 'counting'),
  clock: realClock,
  random: realRandom,
  log,
  meters: noMeters,
})

const actorSystem: ActorSystem = new ActorSystem({
  clock: realClock,
  database: actorStore.database,
  log,
  meters: noMeters,
  kinds: [tallyKind()],
  modules: () => ({
    runEffect(effect) {
      const counted = effect as TallyEffect
      if (counted.type !== 'tally.counted') return
      print(`acknowledged ${counted.name} ${counted.n}`)
      setImmediate(() => actorSystem.send(TALLY, counted.name, { type: 'add' }))
    },
  }),
  onFatal: (reason) => fail(reason),
})

const host = createHost({
  clock: realClock,
  random: realRandom,
  log,
  meters: noMeters,
  store,
  configuration: configuration.value,
  configText,
  tracker: () => undefined,
  ...noProviders,
  health: { ok: true, version: 'busy', sandboxProvider: 'bwrap' },
  findTlsFault: () => undefined,
  openListeners: async (hostApi) => {
    const { port } = configuration.value.effective.server
    const server = await openHostServer({
      hostApi,
      listener: chooseProgramListener().listener,
      token,
      clock: realClock,
      log,
      meters: noMeters,
      trail: noTrail,
      version: 'busy',
      openApi: () => ({}),
      metricsText: () => '',
      management: { host: '127.0.0.1', port },
    })
    if (!server.ok) return fail(server.refusal.message)
    print(`open ${server.value.managementPort}`)
    return yes({ close: () => server.value.close('stopping') })
  },
  finish: (exitCode) => process.exit(exitCode),
})

const restored = actorSystem.restore()
if (!restored.ok || restored.value.damaged.length > 0) fail(`did not come back: ${JSON.stringify(restored)}`)
for (const [key, record] of actorStore.database.snapshots.all('tally'))
  if ('c' in record) print(`found ${key} ${(record.c as TallyContext).n}`)
host.start()
for (let n = 0; n < ACTORS; n++) actorSystem.spawn(TALLY, `actor-${n}`, { name: `actor-${n}` })

/** Rewrites the same run again and again; its title counts the writes. */
async function rewrite(n: number): Promise<void> {
  const found = store.database.runs.get(sampleRun(n).id)?.ticket.title ?? '0'
  print(`found run-${n} ${found}`)
  for (let round = Number(found) + 1; ; round++) {
    const run = sampleRun(n, round % 2 === 0 ? 'queued' : 'running')
    await store.database.commit([putRun({ ...run, ticket: { ...run.ticket, title: String(round) } })])
    print(`acknowledged run-${n} ${round}`)
  }
}
for (let n = 0; n < RUNS; n++) void rewrite(n)
