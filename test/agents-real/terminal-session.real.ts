/**
 * A person resumes a finished run of agentA's real program, with a real host, worker, sandbox and terminal. Only the
 * model API is a fake.
 *
 * The session opens without a setup dialog, its usage is counted on the run exactly once, and the person's credentials
 * are on no disk, neither during the session nor afterwards.
 */
import { spawnSync } from 'node:child_process'
import { basename, join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { CostEntry } from '../../protocol/cost.ts'
import type { Run } from '../../protocol/run.ts'
import { type CommandProcess, sandboxFolder } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'
import { runInTerminal } from '../support/terminal-host.ts'
import { openView, requestRunAction, type SessionView, waitForResume } from '../support/terminal-viewers.ts'
import { until } from '../support/until.ts'
import { type LocalClaude, locateClaude } from './claude-worker.ts'
import * as anthropic from './fake-anthropic.ts'
import { type Asked, type ModelApi, openModelApi, type Reply } from './model-api.ts'

interface Kind {
  readonly title: string
  readonly value: string
  readonly config: object
  readonly of: (asked: Asked) => unknown
}

const KEY = 'sk-ant-api03-a-key-of-a-person-that-stays-nowhere'
const TOKEN = 'sk-ant-oat01-a-token-of-a-person-that-stays-nowhere'
const KINDS: readonly Kind[] = [
  {
    title: 'an API key',
    value: KEY,
    config: { agentAApiKey: KEY },
    of: ({ headers }) => headers['x-api-key'],
  },
  {
    title: 'a token of a subscription',
    value: TOKEN,
    config: { agentAApiKey: undefined, agentAOauthToken: TOKEN },
    of: ({ headers }) => headers.authorization?.replace(/^Bearer /, ''),
  },
]

const SEEN_MS_MAX = 30_000
const DETACH = '\x1dd'
const MODE = 'bypass permissions on'
/** Texts of the dialogs that the program shows at its first start. */
const QUESTIONS =
  /text style|Let.s get started|trust|custom API key|Yes, I accept|log ?in|connect to Anthropic/i
/** The program stores this many last characters of a key, to recognise it. */
const KEY_END_CHARS = 20

let claude: LocalClaude
let api: ModelApi | undefined
beforeAll(() => {
  claude = locateClaude()
})
afterEach(async () => {
  await api?.close()
  api = undefined
})
afterAll(() => claude?.remove())

interface Scene {
  readonly system: LocalSystem
  readonly worker: CommandProcess
  readonly run: Run
  readonly models: ModelApi
}

/** A finished run with a retained sandbox. */
async function startScene(config: object, ...replies: readonly Reply[]): Promise<Scene> {
  const models = await openModelApi({
    certificate: claude.certificate,
    path: anthropic.MESSAGES,
    replies: [
      anthropic.runs('echo Hello > hello.txt'),
      anthropic.replyText('The word is heron.'),
      ...replies,
    ],
  })
  api = models
  claude.point(models.port)
  const system = await LocalSystem.open({
    agent: { commands: {}, orchestratorModel: 'claude-sonnet-5-5', ...config },
    sandbox: { network: 'none' },
    workerEnv: claude.workerEnv,
  })
  const worker = await system.pairWorker()
  system.writeTicket('HELLO-1', [])
  const run = await system.waitForEnd('HELLO-1')
  expect([run.status, run.error]).toEqual(['completed', undefined])
  return { system, worker, run, models }
}

/** Types a line and waits for its echo before Enter, because input in one piece counts as pasted. */
async function converse(view: SessionView, words: string, answer: string): Promise<void> {
  view.type(words)
  await view.waitForText(words, SEEN_MS_MAX)
  view.type('\r')
  await view.waitForText(answer, SEEN_MS_MAX)
}

async function waitForText(view: SessionView, ...words: readonly string[]): Promise<void> {
  for (const word of [...words, MODE]) await view.waitForText(word, SEEN_MS_MAX)
  expect((await view.lines()).join('\n')).not.toMatch(QUESTIONS)
}

/** Files other than the host's configuration that contain the person's key or its last characters. */
function findLeaks({ system }: Scene, { value }: Kind): string[] {
  const found = filesWith(value.slice(-KEY_END_CHARS), [system.folder, sandboxFolder()])
  return found.filter((path) => basename(path) !== 'config.json')
}

function filesWith(text: string, places: readonly string[]): string[] {
  const { stdout } = spawnSync('grep', ['-rlaF', '--', text, ...places], { encoding: 'utf8' })
  return stdout.split('\n').filter(Boolean)
}

async function attachCosts({ system }: Scene, count: number): Promise<readonly CostEntry[]> {
  const ofSessions = ({ costs }: Run) => costs.filter(({ label }) => label.startsWith('attach '))
  const run = await system.waitForRun(
    'HELLO-1',
    `${count} sessions among the costs`,
    (seen) => ofSessions(seen).length >= count,
  )
  return ofSessions(run)
}

const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } =
  anthropic.ANTHROPIC_USAGE
const REPLY_USD = (100 * 2 + 40 * 10 + 5_000 * 0.1 + 2_000 * 2.5) / 1e6

const costOf = (label: string, replies: number) => ({
  label,
  provider: 'agentA',
  model: 'claude-sonnet-5-5',
  inputTokens: input_tokens * replies,
  outputTokens: output_tokens * replies,
  cacheReadTokens: cache_read_input_tokens * replies,
  cacheWriteTokens: cache_creation_input_tokens * replies,
  costUsd: expect.closeTo(REPLY_USD * replies, 9),
  estimated: true,
  source: 'estimated',
})

describe.each(KINDS)('with $title, a person', (kind) => {
  test('resumes the session of a run, by page and by command, and leaves no secret', async () => {
    const { replyText: answer } = anthropic
    const at = await startScene(kind.config, answer('Bittern, now.'), answer('Curlew, then.'))
    const { system, run, models } = at
    const view = await openView(system, run)
    await waitForText(view, 'heron.')
    expect(findLeaks(at, kind)).toEqual([])
    await converse(view, 'And now?', 'Bittern, now.')
    const late = await openView(system, run)
    await until(
      'the same picture',
      async () => (await late.lines()).join('\n') === (await view.lines()).join('\n'),
    )
    late.disconnect()
    view.type('/exit')
    await view.waitForText('/exit', SEEN_MS_MAX)
    view.type('\r')
    await view.closed
    expect(view.endFrame()).toEqual({ type: 'exit', code: 0 })
    await system.waitForNoProcesses()
    expect(await attachCosts(at, 1)).toEqual([costOf('attach 1', 1)])
    expect(findLeaks(at, kind)).toEqual([])

    const person = runInTerminal(['attach', run.id, '--data-dir', system.dataDir])
    const shows = async () => {
      const { active } = (await person.screen()).buffer
      return Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString()).join(
        '\n',
      )
    }
    const sees = (words: string) => until(words, async () => (await shows()).includes(words), SEEN_MS_MAX)
    await sees(MODE)
    await sees('Bittern, now.')
    person.type('What then?')
    await sees('What then?')
    person.type('\r')
    await sees('Curlew, then.')
    person.type(DETACH)
    const { before, after, code } = await person.waitForEnd()
    expect([code, after]).toEqual([0, before])
    await system.waitForNoProcesses()
    expect(await attachCosts(at, 2)).toEqual([costOf('attach 1', 1), costOf('attach 2', 1)])
    expect(findLeaks(at, kind)).toEqual([])
    expect(models.asked.map(kind.of)).toEqual(Array(4).fill(kind.value))
    expect(JSON.stringify(models.asked[3]?.body)).toContain('The word is heron.')
    expect(models.strays).toEqual([])
  }, 120_000)
})

test('usage of a person’s other sessions and of summaries is counted once, too', async () => {
  const [kind] = KINDS as readonly [Kind]
  const { replyText: answer } = anthropic
  const words = ['One.', 'Two.', 'Three.', 'Four.', 'It was about birds.', 'Five.']
  const at = await startScene(kind.config, ...words.map((word) => answer(word)))
  const { system, run, models } = at
  const view = await openView(system, run)
  await waitForText(view, 'heron.')
  await converse(view, 'First?', 'One.')
  view.type('/clear')
  await view.waitForText('/clear', SEEN_MS_MAX)
  view.type('\r')
  await until('a clear screen', async () => !(await view.lines()).join('\n').includes('One.'), SEEN_MS_MAX)
  await converse(view, 'Second?', 'Two.')
  await converse(view, '/branch', 'Branched session')
  await converse(view, 'Third?', 'Three.')
  view.disconnect()
  expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
  expect(await attachCosts(at, 1)).toEqual([costOf('attach 1', 3)])

  expect((await waitForResume(system, run)).status).toBe(200)
  const again = await openView(system, run)
  // The latest session is the branch that was started again.
  await waitForText(again, 'Two.', 'Three.')
  expect((await again.lines()).join('\n')).not.toContain('One.')
  await converse(again, 'Fourth?', 'Four.')
  // A summary also uses the model, but no message in the session shows it.
  await converse(again, '/compact', 'Compacted')
  again.disconnect()
  expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
  // All requests except those of the run and of the first session.
  const replies = models.asked.length - 2 - 3
  expect(replies).toBeGreaterThan(1)
  expect(await attachCosts(at, 2)).toEqual([costOf('attach 1', 3), costOf('attach 2', replies)])
  await system.waitForNoProcesses()
  expect(findLeaks(at, kind)).toEqual([])
}, 120_000)

test('a killed worker leaves no credentials, and the next worker resumes the session', async () => {
  const [kind] = KINDS as readonly [Kind]
  const at = await startScene(kind.config, anthropic.replyText('One.'), anthropic.replyText('Two.'))
  const { system, run, worker } = at
  const view = await openView(system, run)
  await waitForText(view, 'heron.')
  await converse(view, 'First?', 'One.')
  // The program writes a message to its transcript later than it shows it.
  const home = join(system.sandboxOf(run) ?? '', 'home')
  await until('the answer is written down', () => filesWith('"text":"One."', [home]).length === 1)
  worker.process.kill('SIGKILL')
  await worker.exit
  await system.waitForNoProcesses()
  expect(findLeaks(at, kind)).toEqual([])
  system.startWorker(worker.dataDir)
  await view.closed
  expect((await waitForResume(system, run)).status).toBe(200)
  const again = await openView(system, run)
  await waitForText(again, 'One.')
  await converse(again, 'Second?', 'Two.')
  again.disconnect()
  expect((await requestRunAction(system, run.id, 'release')).status).toBe(200)
  expect(await attachCosts(at, 1)).toEqual([costOf('attach 1', 2)])
  await system.waitForNoProcesses()
  expect(findLeaks(at, kind)).toEqual([])
}, 120_000)
