/**
 * The settings of a job have their effect where the agent works: a real host, worker, sandbox and git. The agent's command leaves
 * its own arguments and its prompt among the artifacts.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { LocalSystem } from '../support/local-system.ts'
import { sharedLauncher } from '../support/sandbox.ts'
import { testIf } from '../support/skips.ts'
import { OWNER, ProviderSystem } from '../support/system-with-providers.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 300_000
const COMMAND = `sh -c 'printf "%s\\n" "$@" > "$SWITCHYARD_ARTIFACTS/arguments"; tee "$SWITCHYARD_ARTIFACTS/prompt" | scripted-agent "$@"' agent`
/** More processes than the setting allows, and fewer than the default. */
const FORKS = `run sh -c 'for i in $(seq 200); do sleep 5 & done' 2> /out/forks || true; grep -qi fork /out/forks`

/** A run with a memory limit waits for a worker that has a memory controller. */
const LIMITS_MEMORY = sharedLauncher().limitsEnforcedBy() === 'cgroup'

const WORKFLOW = '.github/workflows/ci.yml'
const PATCH = 'held-back-ci-changes.patch'

async function readArtifact(system: LocalSystem, { id }: Run, name: string): Promise<string> {
  const { url, token } = await system.host.waitForLaunch()
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(`${url}/api/runs/${id}/artifacts/${name}`, { headers })).text()
}

test(
  'model, effort, command, setup, instructions, processes, branch and drafts are as configured',
  async () => {
    const system = await LocalSystem.open({
      local: true,
      sandbox: { maxProcesses: 80, ...(LIMITS_MEMORY ? { memoryMib: 1_500 } : {}) },
      agent: {
        orchestratorModel: 'far-model',
        orchestratorEffort: 'high',
        commands: { agentA: COMMAND },
      },
      repos: {
        far: {
          remote: 'acme/plain',
          defaultBranch: 'next',
          setup: 'echo prepared > prepared.txt',
          instructions: 'Speak of lamps.',
          draftPulls: true,
          allowWorkflows: true,
        },
        near: { remote: 'acme/plain' },
      },
    })
    system.git('plain', 'branch', 'next', 'main')
    const workflow = [`write ${WORKFLOW}`, '  on: push', 'commit Add a workflow']
    system.writeTicket(
      'FAR-1',
      ['run cat prepared.txt', ...workflow, FORKS, 'write a.txt', '  a', 'commit Add a', 'say Done.'],
      {
        repo: 'far',
      },
    )
    const run = await system.waitForEnd('FAR-1')
    expect([run.status, run.error]).toEqual(['completed', undefined])
    expect(system.pulls('plain')).toEqual([expect.objectContaining({ draft: true, baseBranch: 'next' })])
    expect(system.git('plain', 'show', `${run.result?.branch}:${WORKFLOW}`)).toContain('on: push')
    const given = await readArtifact(system, run, 'arguments')
    expect(given).toMatch(/^--model\nfar-model$/m)
    expect(given).toMatch(/^--effort\nhigh$/m)
    expect(await readArtifact(system, run, 'prompt')).toContain('Speak of lamps.')
    // The sandbox keeps its limit for later sessions.
    const sandbox = readFileSync(join(system.sandboxOf(run) ?? '', 'sandbox.json'), 'utf8')
    expect(sandbox.includes('"memoryMib":1500')).toBe(LIMITS_MEMORY)
    // Without allowWorkflows the same change is kept from the code host, and is an artifact of its run.
    system.writeTicket('NEAR-1', ['write b.txt', '  b', ...workflow, 'say Done.'], { repo: 'near' })
    const near = await system.waitForEnd('NEAR-1')
    expect([near.status, near.result?.artifacts]).toEqual(['completed', expect.arrayContaining([PATCH])])
    expect(await readArtifact(system, near, PATCH)).toContain('+on: push')
    expect(system.git('plain', 'ls-tree', '-r', '--name-only', near.result?.branch ?? '')).not.toContain(
      WORKFLOW,
    )
    expect(system.pulls('plain')).toContainEqual(
      expect.objectContaining({ draft: false, body: expect.stringMatching(/^\*\*Held back:\*\*/) }),
    )
  },
  TEST_MS_MAX,
)

/** Leaves the agent's name and the digest of its credential among the artifacts, and ends like an agent without an answer. */
const identify = (name: string) =>
  `sh -c 'echo ${name} > "$SWITCHYARD_ARTIFACTS/agent"; sha256sum < /run/cred/agent > "$SWITCHYARD_ARTIFACTS/credential"'`
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

test.each([
  ['keys', { agentA: 'agentAApiKey', agentB: 'agentBApiKey', agentC: 'agentCApiKey' }],
  ['logins', { agentA: 'agentAOauthToken', agentB: 'agentBLogin', agentC: 'agentCLogin' }],
])(
  'a repository has its agent or the usual one, each with its own command and of the %s its own',
  async (_, fields) => {
    const credentials = Object.fromEntries(Object.values(fields).map((field) => [field, `planted-${field}`]))
    const commands = { agentA: identify('agentA'), agentB: identify('agentB'), agentC: identify('agentC') }
    const system = await LocalSystem.open({
      local: true,
      agent: { provider: 'agentB', commands, keyInSandbox: true, agentAApiKey: undefined, ...credentials },
      repos: {
        a: { remote: 'acme/plain', agent: 'agentA' },
        c: { remote: 'acme/plain', agent: 'agentC' },
      },
    })
    const repos = { agentA: 'a', agentB: 'plain', agentC: 'c' }
    for (const [agent, repo] of Object.entries(repos)) system.writeTicket(agent, ['say Done.'], { repo })
    for (const [agent, field] of Object.entries(fields)) {
      const run = await system.waitForEnd(agent)
      expect(await readArtifact(system, run, 'agent')).toBe(`${agent}\n`)
      expect([field, await readArtifact(system, run, 'credential')]).toEqual([
        field,
        expect.stringContaining(digestOf(`planted-${field}`)),
      ])
    }
  },
  TEST_MS_MAX,
)

test(
  'the token of the code host is exposed to the agent where that is configured',
  async () => {
    const token = 'gho_of_mona'
    const system = await ProviderSystem.open({ sandbox: { exposeCodehostToken: true }, codehost: { token } })
    system.github.addToken(OWNER, token)
    const { body } = await system.send('PUT', '/api/settings/credentials', {
      trackerApiKey: system.linear.apiKey,
    })
    expect(body).toMatchObject({ results: { tracker: { ok: true } } })
    const issue = system.createTicket('Look around', ['run test -n "$GH_TOKEN"', 'say Done.'])
    const run = await system.waitForEnd(issue)
    expect([run.status, run.error]).toEqual(['completed', undefined])
  },
  TEST_MS_MAX,
)

/** Commits a file to the main branch of the code host. */
function addToMain(system: LocalSystem, path: string, text: string): void {
  const file = join(system.folder, 'added')
  writeFileSync(file, text)
  const blob = system.git('plain', 'hash-object', '-w', file)
  system.git('plain', 'read-tree', 'main')
  system.git('plain', 'update-index', '--add', '--cacheinfo', `100644,${blob},${path}`)
  const commit = system.git(
    'plain',
    'commit-tree',
    '-p',
    'main',
    '-m',
    'Add',
    system.git('plain', 'write-tree'),
  )
  system.git('plain', 'update-ref', 'refs/heads/main', commit)
}

const ASK = 'curl -s -o /dev/null --max-time 20'

testIf(existsSync('/usr/bin/curl'), 'needs curl')(
  'the network, its hosts and the disk quota are as configured',
  async () => {
    const system = await LocalSystem.open({
      // The network is the default's.
      sandbox: { network: undefined, allowedHosts: ['allowed.invalid'], diskQuotaGib: 0.05 },
    })
    addToMain(system, 'package-lock.json', '{ "a": { "resolved": "https://locked.invalid/a.tgz" } }')
    const worker = await system.pairWorker()
    system.writeTicket('NET-1', [
      `run ${ASK} https://allowed.invalid; ${ASK} https://locked.invalid; ${ASK} https://other.invalid; true`,
      'run head -c 40000000 /dev/zero > "$HOME/filler"',
      'say Done.',
    ])
    system.writeTicket('NET-2', ['run head -c 80000000 /dev/zero > "$HOME/filler"', 'hang'])
    const first = await system.waitForEnd('NET-1')
    expect([first.status, first.error]).toEqual(['completed', undefined])
    const texts = (await system.events(first)).flatMap((event) => (event.type === 'log' ? [event.text] : []))
    const refused = texts
      .filter((text) => /^egress: \S+ refused/.test(text))
      .map((text) => text.split(' ')[1])
    expect(refused).toEqual(['other.invalid:443'])
    expect(texts).toContain(
      'network: may reach locked.invalid (package-lock.json), allowed.invalid (sandbox.allowedHosts)',
    )
    const second = await system.waitForEnd('NET-2')
    expect([second.status, second.error]).toEqual([
      'failed',
      expect.stringMatching(/^the run's files take 0\.07\d+ GiB, and sandbox\.diskQuotaGib allows 0\.05 GiB/),
    ])
    worker.process.kill('SIGTERM')
    await worker.exit
    // Disk space is reclaimed at the start and every few minutes.
    system.startWorker(worker.dataDir)
    await until('the sandbox over the quota is gone', () => system.sandboxOf(first) === undefined)
  },
  TEST_MS_MAX,
)
