/** The lines of the start banner: connected, or the name of what is missing. */
import { expect, test } from '@jest/globals'
import { createColors } from '../../../bin/output/colors.ts'
import { type BannerFacts, formatBanner } from '../../../bin/programs/serve/start-banner.ts'
import { completeConfig } from '../../../protocol/config.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { aRun } from '../run/runs.ts'

const plain = createColors({}, {})

function configOf(written: object) {
  const completed = completeConfig(written)
  if (!completed.ok) throw new Error(completed.error)
  return completed.value.effective
}

const atlas: WorkerView = {
  id: 'wk-1',
  name: 'atlas',
  state: 'active',
  connection: 'online',
  local: true,
  activeRuns: 0,
  enrolledAt: '2026-01-01T00:00:00.000Z',
  capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 2, version: '0.1.0' },
}

const facts = (hello: Partial<BannerFacts['hello']> = {}, more: Partial<BannerFacts> = {}): BannerFacts => ({
  url: 'http://127.0.0.1:4400',
  dataDir: '~/.local/share/switchyard',
  health: { version: '0.2.0', hostExecution: { kind: 'local-worker' } },
  ownWorker: true,
  hello: { config: configOf({}), linearStatus: { state: 'disconnected' }, workers: [], runs: [], ...hello },
  ...more,
})

test('a host without configuration names what is missing, and the first of it as the next step', () => {
  expect(formatBanner(facts(), plain)).toBe(
    [
      'switchyard 0.2.0 serves http://127.0.0.1:4400',
      '  tracker    not connected: switchyard connect tracker',
      '  code host  not connected: switchyard connect codehost',
      '  agent      not connected: switchyard connect claude',
      '  worker     this machine, starting',
      '  fleet      off, this machine only: switchyard config set fleet.host ADDRESS',
      '  dashboard  its page opens by: switchyard dashboard',
      '  data       ~/.local/share/switchyard',
      'Next: switchyard connect tracker',
      'Ctrl-C stops; running work of this machine is queued again.',
      '',
    ].join('\n'),
  )
})

test('a connected host says so, what it restored, and how a run starts', () => {
  const config = configOf({
    tracker: { driver: 'local', path: '/tickets' },
    codehost: { driver: 'local', path: '/code' },
    agent: { commands: { agentA: 'scripted-agent' } },
    repos: { web: { remote: 'acme/web' } },
    fleet: { host: '0.0.0.0' },
  })
  const runs = [aRun({ status: 'running' }), aRun({ status: 'queued' }), aRun({ status: 'queued' })]
  const hello = { config, linearStatus: { state: 'connected' as const }, workers: [atlas], runs }
  expect(
    formatBanner(facts(hello, { fleetUrl: 'ws://0.0.0.0:4401' }), plain)
      .split('\n')
      .slice(1, -2),
  ).toEqual([
    '  tracker    local, connected, polls every 30s',
    '  code host  local, connected',
    '  agent      claude, as agent.commands.claude says',
    '  worker     atlas, this machine, 2 slots',
    '  fleet      ws://0.0.0.0:4401',
    '  dashboard  its page opens by: switchyard dashboard',
    '  data       ~/.local/share/switchyard',
    '  restored   1 running, 2 queued',
    'Next: move a ticket to Todo, and a run starts',
  ])
})

test.each([
  [4402, 'switchyard dashboard'],
  [4777, 'switchyard dashboard --port 4777'],
])('a page at port %s is named with the command that gives a link to it', (port, command) => {
  const lines = formatBanner(facts({}, { pageUrl: `http://127.0.0.1:${port}` }), plain).split('\n')
  expect(lines).toContain(`  dashboard  http://127.0.0.1:${port}; for another link: ${command}`)
})

test('the commands name a data directory that is not the one of the environment', () => {
  const config = configOf({ tracker: { driver: 'github' }, codehost: { token: 'a-token-of-a-code-host' } })
  const printed = formatBanner(facts({ config }, { namedDataDir: '/my data' }), plain)
  expect(printed).toContain("  tracker    not connected: switchyard connect codehost --data-dir '/my data'\n")
  expect(printed).toMatch(/ fleet .*: switchyard config set fleet\.host ADDRESS --data-dir '\/my data'\n/)
  expect(printed).toMatch(/^Next: switchyard connect codehost --data-dir '\/my data'$/m)
})

test('issues start by a label, or at once', () => {
  const nextOf = (states: readonly string[]) => {
    const tracker = { driver: 'github', eligible: { states } } as const
    const config = configOf({
      tracker,
      codehost: { token: 'a-token-of-a-code-host' },
      agent: { commands: { agentA: 'scripted-agent' } },
      repos: { web: { remote: 'acme/web' } },
    })
    const hello = { config, linearStatus: { state: 'connected' as const }, workers: [atlas] }
    return formatBanner(facts(hello), plain).match(/^Next: (.*)$/m)?.[1]
  }
  expect(nextOf(['Todo'])).toBe('label an issue Todo, and a run starts')
  expect(nextOf([])).toBe('open an issue, and a run starts')
})

test.each<[string, Partial<BannerFacts['hello']>, Partial<BannerFacts>, RegExp]>([
  [
    'a folder that could not be read yet',
    { config: configOf({ tracker: { driver: 'local', path: '/tickets' } }) },
    {},
    /tracker {4}local, disconnected$/m,
  ],
  [
    'a dead credential',
    { linearStatus: { state: 'auth-error', error: 'the key\u001b[2J was revoked' } },
    {},
    /^ {2}tracker {4}linear, auth-error: the key\[2J was revoked$/m,
  ],
  [
    'a token',
    { config: configOf({ codehost: { token: 'a-token-of-a-code-host' } }) },
    {},
    /code host {2}github, has a token/,
  ],
  [
    'a key of an agent',
    { config: configOf({ agent: { agentAApiKey: 'sk-ant-a-key' } }) },
    {},
    /claude, has a credential/,
  ],
  [
    'an agent that is not installed',
    {
      workers: [
        {
          ...atlas,
          capabilities: {
            os: 'linux',
            arch: 'x64',
            provider: 'bwrap',
            maxConcurrency: 2,
            version: '0.1.0',
            agents: { agentA: { found: false, problem: 'install it: npm i -g claude' } },
          },
        },
      ],
    },
    {},
    /agent {6}claude can't be run: install it: npm i -g claude/,
  ],
  [
    'a machine that runs no sandboxes',
    {},
    { health: { version: '0.2.0', hostExecution: { kind: 'none', reason: 'bwrap-unavailable' } } },
    /worker {5}none: start one with switchyard worker/,
  ],
  [
    'workers of other machines',
    { config: configOf({ worker: { local: false } }), workers: [{ ...atlas, local: false }] },
    {},
    /worker {5}1 of 1 online/,
  ],
  [
    'a host that was told to run no worker itself',
    { workers: [{ ...atlas, local: false }] },
    { ownWorker: false },
    /worker {5}1 of 1 online\n(?:.*\n)*.*workers go on with their runs/,
  ],
  [
    'a pause',
    {
      config: configOf({ policy: { paused: true }, worker: { local: false } }),
      linearStatus: { state: 'connected' },
    },
    {},
    /Next: switchyard connect codehost$/m,
  ],
])('%s', (_, hello, more, line) => {
  expect(formatBanner(facts(hello, more), plain)).toMatch(line)
})
