/**
 * An agent that searches its sandbox for its own credential, and uses the model's API on the loopback.
 *
 * The executor, the sandboxes and the programs inside are real. The vendor is a function, which records what arrives.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, test } from '@jest/globals'
import type { ExecutionReport } from '../../../../core/daemon/ports.ts'
import type { AgentJob, Job, RunCredentials } from '../../../../protocol/frames.ts'
import type { UpstreamRequest } from '../../../../worker/model-api/dialed-upstream.ts'
import { jobOf, openTestExecutor, RUN } from '../../../support/resumed-sandbox.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const KEY = 'sk-ant-api03-planted-0a1b2c3d4e5f-nowhere-inside'

/** Runs inside. The key is turned around in it, so that the search does not find the program itself. */
const searchIn = (sandboxes: string) => `
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
const key = '${[...KEY].reverse().join('')}'.split('').reverse().join('')
const read = (path) => { try { return readFileSync(path, 'latin1') } catch { return '' } }
// Links at the top, such as /lib, lead into /usr.
const places = readdirSync('/').filter((name) => !['proc', 'sys', 'usr', 'dev'].includes(name)).map((name) => '/' + name).filter((path) => !lstatSync(path).isSymbolicLink())
const isAgent = process.argv[2] === 'agent.json'
const grep = isAgent && spawnSync('grep', ['-rlaF', '-D', 'skip', '-f', '-', ...places, '/dev/shm'], { input: key + '\\n', encoding: 'utf8' })
const pids = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
const inProcesses = pids.filter((pid) => ['environ', 'cmdline'].some((name) => read('/proc/' + pid + '/' + name).includes(key)))
const ask = async (path, headers = {}) => {
  try {
    const answer = await fetch((process.env.ANTHROPIC_BASE_URL ?? 'http://127.0.0.1:61081') + path, { method: 'POST', body: '{"model":"claude-opus-5-5"}', headers })
    return [answer.status, await answer.text()]
  } catch (error) { return [0, String(error.cause?.code)] }
}
const result = {
  files: isAgent && grep.stdout.split('\\n').filter(Boolean),
  processes: inProcesses.length,
  given: process.env.ANTHROPIC_API_KEY,
  address: process.env.ANTHROPIC_BASE_URL,
  sockets: readdirSync('/run').filter((name) => name.endsWith('.sock')),
  message: await ask('/v1/messages', { 'x-api-key': process.env.ANTHROPIC_API_KEY ?? '' }),
  hasOtherRuns: existsSync('${sandboxes}'),
  forbidden: await ask('/v1/files', {}),
}
writeFileSync('/work/' + process.argv[2], JSON.stringify(result))
if (isAgent) console.log('the program ended with ' + key)
`

async function search(credentials: RunCredentials, changes: Partial<Job> = {}) {
  const folder = tempFolder()
  mkdirSync(join(folder, 'data'))
  const asked: UpstreamRequest[] = []
  const executor = await openTestExecutor(folder, {
    modelUpstream: {
      send: async (request) => {
        asked.push(request)
        request.body?.resume()
        return {
          status: 200,
          headers: {},
          body: Readable.from([Buffer.from(`{"echo":"${request.headers['x-api-key']}"}`)]),
        }
      },
      close: async () => {},
    },
  })
  const job = jobOf([], changes)
  const reports: ExecutionReport[] = []
  const reporter = {
    report: (report: ExecutionReport) => void reports.push(report),
    waitForCapacity: async () => {},
  }
  const setup = `cat > /work/search.mjs <<'END'\n${searchIn(join(folder, 'sandboxes'))}\nEND\nnode /work/search.mjs setup.json`
  const order: AgentJob = {
    ...job,
    repo: { ...job.repo, setup },
    agent: { ...job.agent, command: `sh -c 'node /work/search.mjs agent.json' agent` },
    credentials,
  }
  const execution = executor.start({ leaseId: 'ls-1', workerId: 'wk-1', job: order }, reporter, () => {})
  const prepared = await execution.prepare()
  const outcome = await execution.runAgent()
  await execution.finish(outcome)
  await execution.whenExited()
  const work = join(folder, 'sandboxes', RUN, 'work')
  const read = (name: string) => JSON.parse(readFileSync(join(work, name), 'utf8'))
  const result = { prepared, outcome, reports, asked, read }
  return { ...result, close: () => executor.close() }
}

test.each(['none', 'open'] as const)(
  'with network %s the agent has no key, and its model all the same',
  async (network) => {
    const sandbox = { network, allowedHosts: [], maxProcesses: 256, exposeCodehostToken: false }
    const { read, asked, reports, close } = await search(
      { agent: { kind: 'api-key', value: KEY } },
      { sandbox },
    )
    const found = read('agent.json')
    expect(found).toMatchObject({
      files: [],
      processes: 0,
      hasOtherRuns: false,
      given: expect.stringMatching(/^sk-ant-api03-placeholder/),
      address: 'http://127.0.0.1:61081',
      message: [200, `{"echo":"${'*'.repeat(KEY.length)}"}`],
      forbidden: [403, expect.stringContaining('permission_error')],
    })
    expect(found.sockets.toSorted()).toEqual(
      network === 'none' ? ['model-api.sock'] : ['egress.sock', 'model-api.sock'],
    )
    expect(asked.map(({ origin, path, headers }) => [origin, path, headers['x-api-key']])).toEqual([
      ['https://api.anthropic.com', '/v1/messages', KEY],
    ])
    // A repository's own scripts reach no model.
    expect(read('setup.json')).toMatchObject({ message: [0, 'ECONNREFUSED'], processes: 0 })
    expect(JSON.stringify(reports)).not.toContain(KEY)
    expect(JSON.stringify(reports)).toContain('the program ended with ***')
    await close()
  },
)

test('where the configuration asks for it the agent has the key, and no address of the worker', async () => {
  const { read, asked, close } = await search({ agent: { kind: 'api-key', value: KEY }, keyInSandbox: true })
  expect(read('agent.json')).toMatchObject({
    files: ['/run/cred/agent'],
    given: KEY,
    message: [0, 'ECONNREFUSED'],
  })
  expect(asked).toEqual([])
  await close()
})

test('a login that works only inside the sandbox fails before the agent starts, with the cure', async () => {
  const agent: AgentJob['agent'] = { provider: 'agentC', command: 'true', instructions: '', memories: [] }
  const { outcome, close } = await search({ agent: { kind: 'login', value: '{"a":"b"}' } }, { agent })
  expect(outcome).toEqual({
    verdict: 'failed',
    failure: 'credentials',
    reason: expect.stringMatching(/^credential of agentC is refused: .*agent\.keyInSandbox/),
  })
  await close()
})
