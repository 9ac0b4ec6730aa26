/**
 * The real agent programs in our sandbox with our drivers, from a checkout to a pull request. The tests check that the
 * programs still behave as the drivers and listeners expect.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import type { ExecutionReport } from '../../core/daemon/ports.ts'
import type { AgentJob, RunCredentials } from '../../protocol/frames.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { until } from '../support/until.ts'
import { type Executed, openRig, type Rig } from './executor-fixture.ts'
import * as anthropic from './fake-anthropic.ts'
import * as google from './fake-google.ts'
import * as openai from './fake-openai.ts'
import { type Asked, type ModelApi, openModelApi, type Reply } from './model-api.ts'
import { PLANTED } from './surroundings.ts'

type Credential = NonNullable<RunCredentials['agent']>

/** The differences between the two agents; all other expectations hold for both. */
interface Kind {
  readonly provider: 'agentA' | 'agentB'
  readonly model: string
  readonly path: string
  readonly replies: {
    replyText(text: string): Reply
    runs(command: string): Reply
    isAtLimit(resetsAt: Date): Reply
    readonly refusesTheKey: Reply
    readonly goesOnForever: Reply
  }
  readonly key: Credential
  readonly keyOf: (asked: Asked) => unknown
  /** The price of one reply, in dollars. */
  readonly replyUsd: number
  readonly replyTokens: {
    readonly input: number
    readonly output: number
    readonly read: number
    readonly write: number
  }
  /** Whether the cost is reported by the agent instead of estimated by the driver. */
  readonly billed: boolean
  readonly refusedKey: RegExp
}

const kinds: readonly Kind[] = [
  {
    provider: 'agentA',
    model: 'claude-sonnet-5-5',
    path: anthropic.MESSAGES,
    replies: anthropic,
    key: { kind: 'api-key', value: 'sk-ant-api03-secret-of-a-person' },
    keyOf: ({ headers }) => headers['x-api-key'],
    replyUsd: (100 * 2 + 40 * 10 + 5_000 * 0.1 + 2_000 * 2.5) / 1e6,
    replyTokens: { input: 100, output: 40, read: 5_000, write: 2_000 },
    billed: true,
    refusedKey: /Invalid API key/,
  },
  {
    provider: 'agentB',
    model: openai.OPENAI_MODEL,
    path: openai.RESPONSES,
    replies: openai,
    key: { kind: 'api-key', value: 'sk-proj-secret-of-a-person' },
    keyOf: ({ headers }) => headers.authorization?.replace(/^Bearer /, ''),
    replyUsd: (600 * 0.2 + 100 * 1.2 + 1_200 * 0.02 + 200 * 0.25) / 1e6,
    replyTokens: { input: 600, output: 100, read: 1_200, write: 200 },
    billed: false,
    refusedKey: /401 Unauthorized.*Incorrect API key/,
  },
]

/** Secrets in the worker's own environment that no agent may see. */
const NOT_FOR_AGENTS = ['ANTHROPIC_AUTH_TOKEN', 'OPENAI_API_KEY', 'GH_TOKEN']

let rig: Rig
let api: ModelApi | undefined
beforeAll(async () => {
  rig = await openRig()
})
afterEach(async () => {
  await api?.close()
  api = undefined
})
afterAll(() => rig?.close())

async function openAnsweringModel(
  { path }: Pick<Kind, 'path'>,
  ...replies: readonly Reply[]
): Promise<ModelApi> {
  api = await openModelApi({ certificate: rig.certificate, path, replies })
  rig.point(api.port)
  return api
}

function jobOf({ provider, model, key }: Kind, credential = key): AgentJob {
  const agent = { provider, model, instructions: 'Keep to the rules of the house.', memories: [] }
  return rig.job({ agent, credential, description: 'Say hello to everybody, in a file.' })
}

// ---- both agents -------------------------------------------------------------------------------------------------

describe.each(kinds)('$provider', (kind) => {
  const { replyText, runs, isAtLimit, refusesTheKey, goesOnForever } = kind.replies

  test('completes a run: the model’s change is in the pull request', async () => {
    const script = [
      'printf "Hello, everybody\\n" > hello.txt',
      'env | cut -d= -f1 | sed s/^/has:/',
      'ls -A / /root /home "$HOME" 2>&1',
      'printenv ANTHROPIC_API_KEY CODEX_API_KEY',
      searchFor(kind.key.value),
    ].join('; ')
    const models = await openAnsweringModel(kind, runs(script), replyText('I said hello.'))
    const job = jobOf(kind)
    const done = await rig.execute(job)

    expect(done.outcome).toMatchObject({
      status: 'completed',
      prState: 'open',
      costs: [{ provider: kind.provider }],
    })
    expect(done.outcome.result?.summary).toBe('I said hello.')
    expect(rig.published(job.branch, 'hello.txt')).toBe('Hello, everybody')
    expectCost(kind, done, 2)
    expect(usageOf(done)).toHaveLength(2)
    expect(eventsOf(done, 'agent').length).toBeGreaterThan(3)
    expectSession(kind, done)
    expect(models.asked.map(kind.keyOf)).toEqual([kind.key.value, kind.key.value])
    const questions = JSON.stringify(models.asked.map(({ body }) => body))
    expect(questions).toContain('Say hello to everybody, in a file.')
    expect(questions).toContain('House rule: greet politely.')
    // The model received the command's output.
    expect(questions).toContain('has:SWITCHYARD_ARTIFACTS')
    for (const name of NOT_FOR_AGENTS) expect(questions).not.toContain(`has:${name}`)
    expect(questions).not.toContain(kind.key.value)
    expectNothingFound(models)
    expectPrivate(job, done, kind.key)
  })

  test('the budget of a run acts in its middle, as its requests pass through the worker', async () => {
    const replies = Array.from({ length: 6 }, (_, at) => runs(`echo step ${at}`))
    const models = await openAnsweringModel(kind, ...replies, replyText('Too late.'))
    const job = { ...jobOf(kind), limits: { maxCostUsd: kind.replyUsd * 2.5 } }
    const done = await rig.execute(job)

    expect(done.outcome.status).toBe('failed')
    expect(done.outcome.error).toMatch(/budget|agent\.maxCostUsd/)
    // The third answer exceeds the budget, and the fourth is never asked for.
    expect(models.asked).toHaveLength(3)
    const [cost] = done.outcome.costs
    expect(cost?.costUsd).toBeGreaterThan(kind.replyUsd * 2.5)
    expect(cost?.costUsd).toBeLessThan(kind.replyUsd * 3.5)
    expect(done.outcome.prUrl).toBeUndefined()
  })

  test('a usage limit fails the run and says when it ends', async () => {
    const resetsAt = new Date(Math.floor(Date.now() / 60_000) * 60_000 + 3_600_000)
    const models = await openAnsweringModel(kind, isAtLimit(resetsAt))
    const credential: Credential =
      kind.provider === 'agentA'
        ? { kind: 'oauth-token', value: 'sk-ant-oat01-secret-of-a-person' }
        : kind.key
    const job = jobOf(kind, credential)
    const done = await rig.execute(job)

    expect(done.outcome.status).toBe('failed')
    expect(done.outcome.error).toMatch(/hit your (5-hour|usage) limit/)
    expect(eventsOf(done, 'limit')).toEqual([
      expect.objectContaining({ provider: kind.provider, resetsAt: resetsAt.toISOString() }),
    ])
    expect(models.asked.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${credential.value}`])
    expectPrivate(job, done, credential)
  })

  test('a cancel ends the agent and its processes soon, and its usage is known', async () => {
    const mark = `4815${kind.provider === 'agentA' ? '1' : '2'}`
    const models = await openAnsweringModel(
      kind,
      runs(`setsid sleep ${mark} >/dev/null 2>&1 </dev/null & echo started`),
      goesOnForever,
    )
    let cancelledAt = 0
    const job = jobOf(kind)
    const done = await rig.execute(job, async (execution) => {
      await models.questions(2)
      await until('what it has started is there', () => running(mark))
      cancelledAt = performance.now()
      execution.stop({ how: 'interrupt', reason: 'cancelled by a person' })
    })
    const tookMs = performance.now() - cancelledAt

    expect(done.outcome).toMatchObject({ status: 'cancelled', error: 'cancelled by a person' })
    expect(tookMs).toBeLessThan(10_000)
    expect(running(mark)).toBe(false)
    expect(models.abandoned()).toBe(1)
    expect(done.outcome.costs).toHaveLength(1)
    expect(done.outcome.costs[0]?.costUsd).toBeGreaterThanOrEqual(kind.replyUsd * 0.999)
    expect(done.outcome.prUrl).toBeUndefined()
    expectPrivate(job, done, kind.key)
  })

  test('an invalid key fails the run with a message that does not contain the key', async () => {
    const models = await openAnsweringModel(kind, refusesTheKey)
    const job = jobOf(kind)
    const done = await rig.execute(job)

    expect(done.outcome.status).toBe('failed')
    expect(done.outcome.error).toMatch(kind.refusedKey)
    expect(eventsOf(done, 'limit')).toEqual([])
    expect(models.asked.map(kind.keyOf)).toContain(kind.key.value)
    expectPrivate(job, done, kind.key)
  })
})

// ---- only one of the agents --------------------------------------------------------------------------------------

test('agentA resumes its session in the retained home', async () => {
  const [kind] = kinds as readonly [Kind]
  const models = await openAnsweringModel(
    kind,
    kind.replies.replyText('The word is heron.'),
    kind.replies.replyText('Heron, I said.'),
  )
  const job = jobOf(kind)
  const first = await rig.execute(job)
  const sessionId = first.outcome.agentSessionId ?? ''

  const { ending, reports } = await rig.resume(job, sessionId, 'What was the word?')
  expect(ending).toMatchObject({ verdict: 'done', summary: 'Heron, I said.' })
  expect(ending.cost?.costUsd).toBeCloseTo(kind.replyUsd, 9)
  expect(reports).toContainEqual({ is: 'patch', patch: { agentSessionId: sessionId } })
  const [, again] = models.asked
  expect(JSON.stringify(again?.body)).toContain('The word is heron.')

  const unknown = await rig.resume(job, '00000000-0000-4000-8000-000000000000', 'What was the word?')
  expect(unknown.ending).toMatchObject({
    verdict: 'failed',
    reason: expect.stringContaining('No conversation found'),
  })
})

test.each(kinds)('$provider follows up on its pull request, and the key stays outside', async (kind) => {
  const { runs, replyText } = kind.replies
  const models = await openAnsweringModel(
    kind,
    runs('echo Hello > hello.txt'),
    replyText('I said hello.'),
    runs('echo Goodbye >> hello.txt'),
    replyText('I said goodbye, too.'),
  )
  const job = jobOf(kind)
  const first = await rig.execute(job)
  expect(first.outcome).toMatchObject({ status: 'completed', prState: 'open' })
  const done = await rig.execute(followUpOf(job, first.outcome.prUrl ?? ''))
  expect(done.outcome).toMatchObject({
    status: 'completed',
    result: { summary: expect.stringContaining('goodbye') },
  })
  expect(rig.published(job.branch, 'hello.txt')).toBe('Hello\nGoodbye')
  expect(models.asked.map(kind.keyOf)).toEqual(Array(4).fill(kind.key.value))
  expect(JSON.stringify(models.asked[2]?.body)).toContain('Say goodbye as well.')
  expectPrivate(job, done, kind.key)
})

function followUpOf(job: AgentJob, url: string): AgentJob {
  const { createdAt } = job.run
  const comment = { id: 'c1', author: 'person', body: 'Say goodbye as well.', createdAt, url }
  return {
    ...job,
    kind: 'follow-up',
    followUp: { id: `follow-${job.run.id}`, number: 1 },
    run: { ...job.run, prUrl: url, prState: 'open' },
    pull: {
      number: rig.pullNumber(job.branch),
      url,
      headBranch: job.branch,
      headRemote: job.repo.remote,
      baseBranch: job.base,
      threads: [],
      reviews: [],
      comments: [comment],
    },
  }
}

test('agentC completes a run, and the key stays outside', async () => {
  const key: Credential = { kind: 'api-key', value: 'aisy-secret-of-a-person-0123456789' }
  const search = ['echo Hello > hello.txt', 'printenv GEMINI_API_KEY', searchFor(key.value)].join('; ')
  const models = await openAnsweringModel(
    { path: google.GENERATE },
    google.runs(search),
    google.replyText('I said hello.'),
  )
  const agent = { provider: 'agentC' as const, model: google.GOOGLE_MODEL, instructions: '', memories: [] }
  const job = rig.job({ agent, credential: key, description: 'Say hello to everybody, in a file.' })
  const done = await rig.execute(job)
  expect([done.outcome.status, done.outcome.error]).toEqual(['completed', undefined])
  expect(rig.published(job.branch, 'hello.txt')).toBe('Hello')
  expect(models.asked.map(({ headers }) => headers['x-goog-api-key'])).toEqual([key.value, key.value])
  expectNothingFound(models)
  expectPrivate(job, done, key)
})

test('the budget of a run with agentC acts in its middle', async () => {
  const replies = Array.from({ length: 6 }, (_, at) => google.runs(`echo step ${at}`))
  const models = await openAnsweringModel({ path: google.GENERATE }, ...replies)
  const key: Credential = { kind: 'api-key', value: 'aisy-secret-of-a-person-0123456789' }
  const agent = { provider: 'agentC' as const, model: google.GOOGLE_MODEL, instructions: '', memories: [] }
  const job = rig.job({ agent, credential: key, description: 'Count the steps.' })
  const done = await rig.execute({ ...job, limits: { maxCostUsd: google.REPLY_USD * 1.5 } })
  expect(done.outcome).toMatchObject({ status: 'failed', error: expect.stringMatching(/agent\.maxCostUsd/) })
  expect(models.asked).toHaveLength(2)
  expect(done.outcome.costs[0]?.costUsd).toBeCloseTo(google.REPLY_USD * 2, 9)
})

test('a person resumes the session of agentA without a setup dialog, and no key is left', async () => {
  const [kind] = kinds as readonly [Kind]
  const models = await openAnsweringModel(
    kind,
    kind.replies.replyText('The word is heron.'),
    kind.replies.replyText('Bittern, now.'),
  )
  const job = jobOf(kind)
  const first = await rig.execute(job)

  const person = await rig.attend(job)
  // The program draws each word separately and moves the cursor in between.
  await person.waitForText('heron.', 20_000)
  await person.waitForText('bypass permissions on', 20_000)
  person.session.input('And now?')
  await person.waitForText('now?')
  person.session.input('\r')
  await person.waitForText('Bittern,', 20_000)
  await until('both are answered', () => models.asked.length === 2)
  const [end] = [kind.key.value.slice(-20)]
  expect(rig.kept(job, end)).toEqual([])
  const usage = await person.booted.close()
  expect(rig.kept(job, end)).toEqual([])
  const entries = usage.filter(({ sessionId }) => sessionId === first.outcome.agentSessionId)
  expect(entries.flatMap((snapshot) => snapshot.entries)).toHaveLength(2)
  expect(models.asked.map(kind.keyOf)).toEqual([kind.key.value, kind.key.value])
}, 60_000)

test('agentB works with the login of a plan, which is on no disk afterwards', async () => {
  const [, kind] = kinds as readonly [Kind, Kind]
  const models = await openAnsweringModel({ path: openai.PLAN_RESPONSES }, kind.replies.replyText('Done.'))
  const access = token({ exp: Math.floor(Date.now() / 1000) + 86_400 })
  const credential: Credential = { kind: 'login', value: planLogin(access) }
  const job = jobOf(kind, credential)
  const done = await rig.execute(job)

  expect(done.outcome.result?.summary).toMatch(/^Done\./)
  expect(models.asked.map(({ headers }) => [headers.authorization, headers['chatgpt-account-id']])).toEqual([
    [`Bearer ${access}`, 'account-of-a-person'],
  ])
  for (const value of [access, 'rt_secret', 'account-of-a-person'])
    expectPrivate(job, done, { kind: 'login', value })
  expect(rig.kept(job, 'Say hello to everybody')).not.toEqual([])
})

test('agentB fails of a plan’s login that the vendor refuses, and renews nothing', async () => {
  const [, kind] = kinds as readonly [Kind, Kind]
  const models = await openAnsweringModel({ path: openai.PLAN_RESPONSES }, kind.replies.refusesTheKey)
  const credential: Credential = { kind: 'login', value: planLogin(token({ exp: 2_000_000_000 })) }
  const job = jobOf(kind, credential)
  const done = await rig.execute(job)
  expect(done.worked).toMatchObject({ verdict: 'failed', failure: 'credentials' })
  expect(done.worked.reason).toMatch(/^credential of agentB is refused: /)
  expect(models.asked.length).toBeGreaterThan(0)
  expectPrivate(job, done, { kind: 'login', value: 'rt_secret' })
})

/** The login file as the agent's own program stores it. */
function planLogin(access: string): string {
  const id = token({
    email: 'person@example.org',
    'https://api.openai.com/auth': { chatgpt_plan_type: 'plus', chatgpt_account_id: 'account-of-a-person' },
  })
  const tokens = {
    id_token: id,
    access_token: access,
    refresh_token: 'rt_secret',
    account_id: 'account-of-a-person',
  }
  return JSON.stringify({
    auth_mode: 'chatgpt',
    OPENAI_API_KEY: null,
    tokens,
    last_refresh: new Date().toISOString(),
  })
}

function token(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256' })}.${part(claims)}.${part({ signature: 'none' })}`
}

// ---- expectations for every run ----------------------------------------------------------------------------------

function eventsOf<T extends ReportedEvent['type']>({ reports }: Pick<Executed, 'reports'>, type: T) {
  return reports.flatMap((report) =>
    report.is === 'event' && report.event.type === type
      ? [report.event as Extract<ReportedEvent, { type: T }>]
      : [],
  )
}

function usageOf({ reports }: Executed) {
  return reports.flatMap((report) => (report.is === 'usage' ? report.snapshot.entries : []))
}

function expectCost(
  { provider, model, replyUsd, replyTokens, billed }: Kind,
  done: Executed,
  replies: number,
): void {
  const { input, output, read, write } = replyTokens
  const [entry] = done.outcome.costs
  expect(entry).toEqual({
    label: 'run',
    provider,
    model,
    inputTokens: input * replies,
    outputTokens: output * replies,
    cacheReadTokens: read * replies,
    cacheWriteTokens: write * replies,
    costUsd: expect.closeTo(replyUsd * replies, 9),
    estimated: !billed,
    source: billed ? 'reported' : 'estimated',
  })
  expect(eventsOf(done, 'cost').map((event) => event.entry)).toEqual([entry])
  const summed = usageOf(done).reduce((sum, { outputTokens }) => sum + outputTokens, 0)
  expect(summed).toBe(output * replies)
}

function expectSession({ provider }: Kind, { outcome, progress }: Executed): void {
  const ids = progress.flatMap(({ agentSessionId }) => (agentSessionId === undefined ? [] : [agentSessionId]))
  expect(ids).toHaveLength(provider === 'agentA' ? 1 : 0)
  expect(outcome.agentSessionId).toBe(ids[0])
}

/** The search inside has run to its end. */
function expectNothingFound({ asked }: ModelApi): void {
  const questions = JSON.stringify(asked.map(({ body }) => body))
  expect(questions).toContain('placeholder-the-worker-adds-the-key')
  expect(questions).toContain('SEARCHED')
  expect(questions).not.toMatch(/FOUND [^|]/)
}

/** The key never entered the sandbox, the worker's secrets are nowhere, and the agent contacted no host itself. */
function expectPrivate(job: AgentJob, { outcome, reports }: Executed, credential: Credential): void {
  const reportedText = JSON.stringify([outcome, reports, rig.ordered, rig.log.lines])
  expect(reportedText).not.toContain(credential.value)
  expect(reportedText).not.toContain(PLANTED)
  expect(JSON.stringify(api?.asked)).not.toContain(PLANTED)
  expect(rig.kept(job, credential.value)).toEqual([])
  expect(reports.flatMap(egressLines)).toEqual([])
  // Codex also asks for the models of a plan. A cancelled agent leaves a connection that was just being opened.
  const expected = ['GET /backend-api/codex/models', 'TLS: socket hang up']
  expect(api?.strays.filter((stray) => !expected.includes(stray))).toEqual([])
}

/**
 * Shell commands that search a sandbox's files and processes. The text that they search for is not in them: every
 * letter is replaced by the next.
 */
function searchFor(text: string): string {
  const shifted = text.replace(/[a-y]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 1))
  const places = '/work /home /run /tmp /etc /out /opt /dev/shm'
  const [key, processes] = ['/dev/shm/search.key', '/dev/shm/search.processes']
  return [
    `printf %s '${shifted}' | tr b-z a-y > ${key}`,
    `grep -rlaF -D skip -f ${key} ${places} 2>/dev/null | grep -v ^${key} | sed 's|^|FOUND |'`,
    `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > ${processes}`,
    `grep -aF -f ${key} ${processes} | sed 's|^|FOUND |'`,
    `unlink ${key}; unlink ${processes}; echo SEARCHED`,
  ].join('; ')
}

function egressLines(report: ExecutionReport): string[] {
  if (report.is !== 'event' || report.event.type !== 'log' || report.event.stream !== 'system') return []
  return report.event.text.split('\n').filter((line) => line.startsWith('egress: '))
}

/** The processes of this machine, as seen from outside the sandbox. */
function running(mark: string): boolean {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => commandOf(pid).startsWith(`sleep\0${mark}`))
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
