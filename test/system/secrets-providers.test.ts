/**
 * Secrets stay where they belong while providers misbehave: tracker, code host, agent vendors, OAuth helper and local
 * programs echo whatever they receive, in every possible way. The test searches all responses, broadcasts, logs, files
 * and processes of the service.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import {
  type CommandProcess,
  runCommand as command,
  sandboxFolder,
  serve,
} from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { type FakeGithub, startGithub } from '../support/github/github.ts'
import { type FakeLinear, startLinear } from '../support/linear/linear.ts'
import { isOver } from '../support/local-system.ts'
import {
  type MisbehavingProxy,
  type Misbehaviour,
  type RequestSink,
  startMisbehavingProxy,
  startRequestSink,
  TOKEN_SUFFIX,
} from '../support/misbehaving-proxy.ts'
import { drawSeed, Random } from '../support/random.ts'
import {
  PlantedSecrets,
  ProcessWatcher,
  readFilesBelow,
  type SecretSighting,
} from '../support/secret-sweep.ts'
import { connectSocket, inspectEverything } from '../support/socket-client.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const TEST_MS_MAX = 600_000
/** Every secret field is set; a key that is set later replaces a login. */
const KEPT_MIN = 6
const WAIT_MS = 60_000
/** The duration of two polls of the tracker. */
const POLL_WAIT_MS = 2_000
const FAR_MS = 3_600_000
const TICKET = [
  'write src/hello.txt',
  '  Hello!',
  'artifact report.md',
  '  # All is well',
  'run env',
  'commit Hello',
]

const hex = (bytes = 24): string => randomBytes(bytes).toString('hex')

const endings: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end()
})

// ---- the fakes -----------------------------------------------------------------------------------------------------

interface Providers {
  readonly plants: PlantedSecrets
  readonly linear: FakeLinear
  readonly github: FakeGithub
  readonly tracker: MisbehavingProxy
  readonly codehost: MisbehavingProxy
  readonly vendors: MisbehavingProxy
  readonly sink: RequestSink
}

async function startProviders(): Promise<Providers> {
  const plants = new PlantedSecrets()
  const clientSecret = plants.plant('tracker client secret', `lin_client_${hex()}`)
  const linear = await startLinear({ app: { clientSecret } })
  linear.world.team({ key: 'ENG', name: 'Engineering' })
  linear.onTokenAnswer = ({ pair }) => {
    plants.plant('access token of the tracker', pair.accessToken + TOKEN_SUFFIX)
    plants.plant('refresh token of the tracker', pair.refreshToken + TOKEN_SUFFIX)
  }
  const github = await startGithub({ people: [{ login: 'mona' }, { login: 'lisa' }] })
  await github.addRepo({ fullName: 'acme/plain', members: { mona: 'admin', lisa: 'push' } })
  github.device.settings.intervalSeconds = 1
  const vendor = await startVendor()
  const mirrors = await Promise.all([linear.url, github.origin, vendor].map(startMisbehavingProxy))
  const [tracker, codehost, vendors] = mirrors as [MisbehavingProxy, MisbehavingProxy, MisbehavingProxy]
  const sink = await startRequestSink()
  endings.push(
    () => linear.stop(),
    () => github.close(),
    () => sink.close(),
  )
  for (const proxy of mirrors) endings.push(() => proxy.close())
  return { plants, linear, github, tracker, codehost, vendors, sink }
}

/** The agent that accepts no key. */
async function startVendor(): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  endings.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Starts a host with every feature, and a secret in each secret field. */
function configOf(town: Providers, more: { connect?: object; tracker?: object } = {}): object {
  const { plants, linear, github } = town
  const pair = linear.grant({ isPkce: false })
  const token = `ghp_${hex()}`
  github.addToken('mona', token)
  const instant = '2033-03-04T05:06:07.891Z'
  return {
    server: { port: 0 },
    sandbox: { network: 'none', concurrency: 2 },
    agent: {
      commands: { agentA: 'scripted-agent' },
      agentAApiKey: plants.plant('agentA key', `sk-ant-api03-${hex()}${TOKEN_SUFFIX}`),
      agentAOauthToken: plants.plant('agentA token', `sk-ant-oat01-${hex()}${TOKEN_SUFFIX}`),
      agentBApiKey: plants.plant('agentB key', `sk-proj-${hex()}${TOKEN_SUFFIX}`),
      agentBLogin: loginOf(plants, 'agentB login'),
      agentCApiKey: plants.plant('agentC key', `AIza${hex()}${TOKEN_SUFFIX}`),
      agentCLogin: loginOf(plants, 'agentC login'),
    },
    tracker: {
      driver: 'linear',
      apiUrl: town.tracker.url,
      apiKey: plants.plant('tracker key', pair.accessToken + TOKEN_SUFFIX),
      refreshToken: plants.plant('tracker refresh token', pair.refreshToken + TOKEN_SUFFIX),
      tokenExpiresAt: plants.plant('tracker token end', instant),
      pollSeconds: 1,
      eligible: { states: ['Todo'] },
      startedState: 'In Progress',
      ...more.tracker,
    },
    codehost: {
      driver: 'github',
      apiUrl: `${town.codehost.url}/api/v3`,
      token: plants.plant('codehost token', token + TOKEN_SUFFIX),
    },
    connect: {
      codehostClientId: github.device.settings.clientId,
      trackerClientId: linear.app.clientId,
      trackerClientSecret: linear.app.clientSecret,
      ...more.connect,
    },
    storage: { bucket: 'shots', publicBaseUrl: 'https://shots.example' },
    repos: { plain: { remote: 'acme/plain' } },
  }
}

function loginOf(plants: PlantedSecrets, name: string): string {
  const [access, refresh] = [`eyJ${hex()}`, `rt_${hex()}${TOKEN_SUFFIX}`]
  plants.plant(`${name}, access`, access)
  plants.plant(`${name}, refresh`, refresh)
  return JSON.stringify({ tokens: { access_token: access, refresh_token: refresh }, refresh_token: refresh })
}

/** Queue reasons of a run that waits for something that it can't change. */
const HELD = /can't be read|is refused|^publishing again/

/** A host with all its requests and effects. */
class Witness {
  #retentionHours = 1
  readonly town: Providers
  readonly folder = tempFolder()
  readonly dataDir = join(this.folder, 'host')
  readonly home = join(this.folder, 'home')
  readonly answers: [what: string, text: string][] = []
  readonly #env: NodeJS.ProcessEnv
  #config = join(this.dataDir, 'config.json')
  #host: CommandProcess | undefined
  #watch: ProcessWatcher | undefined
  #dashboard: ReturnType<typeof connectSocket> | undefined
  #inspector: ReturnType<typeof connectSocket> | undefined

  constructor(town: Providers, config: object, env: NodeJS.ProcessEnv = {}) {
    this.town = town
    mkdirSync(this.dataDir, { mode: 0o700 })
    mkdirSync(this.home)
    mkdirSync(join(this.folder, 'tmp'))
    writeFileSync(join(this.dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
    this.#env = {
      HOME: this.home,
      TMPDIR: join(this.folder, 'tmp'),
      SWITCHYARD_AGENT_A_URL: town.vendors.url,
      SWITCHYARD_AGENT_B_URL: town.vendors.url,
      SWITCHYARD_AGENT_C_URL: town.vendors.url,
      // A person's own gateways must not receive the configured secrets.
      ANTHROPIC_BASE_URL: town.sink.url,
      OPENAI_BASE_URL: town.sink.url,
      GOOGLE_GEMINI_BASE_URL: town.sink.url,
      ...env,
    }
  }

  /** Programs in this folder come first on PATH. */
  onPath(folder: string): void {
    this.#env.PATH = `${folder}:${process.env.PATH}`
  }

  /** Resolves a link to its target. */
  keepConfigAt(name: string): void {
    const kept = join(this.folder, name)
    renameSync(this.#config, kept)
    symlinkSync(kept, this.#config)
    this.#config = kept
  }

  async open(): Promise<this> {
    const { plants } = this.town
    this.#host = serve(this.dataDir, ['--log-level', 'debug', '--log-format', 'json'], this.#env)
    const { url, token } = await this.host.waitForLaunch()
    plants.plant('own launch token', token)
    this.#watch = new ProcessWatcher(plants, [this.host.process.pid ?? 0])
    this.#dashboard = connectSocket(Number(new URL(url).port), '/ws', { authorization: `Bearer ${token}` })
    await this.#dashboard.opened
    this.#inspector = await inspectEverything(Number(new URL(url).port), token)
    return this
  }

  get host(): CommandProcess {
    if (this.#host === undefined) throw new Error('no host was started')
    return this.#host
  }

  get watch(): ProcessWatcher {
    if (this.#watch === undefined) throw new Error('nobody watches')
    return this.#watch
  }

  /** The response in the format of `curl -i`. */
  async ask(
    method: string,
    path: string,
    body?: object,
    /** This route returns a secret to a person on purpose. */
    isPersonal = false,
  ): Promise<{ status: number; body: unknown }> {
    const { url, token } = await this.host.waitForLaunch()
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const head = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n')
    if (!isPersonal) this.answers.push([`${method} ${path}`, `${response.status}\n${head}\n${text}`])
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    return { status: response.status, body: isJson ? JSON.parse(text) : text }
  }

  async runs(): Promise<Run[]> {
    return (await this.ask('GET', '/api/runs')).body as Run[]
  }

  ends(title: string): Promise<Run> {
    return this.#waitForRun(title, isOver)
  }

  /** Waits until the run has failed, or is held in the queue for a cause that no run can change; then ends it. */
  async goesWrong(title: string): Promise<void> {
    const isHeld = ({ status, queueReason = '' }: Run) => status === 'queued' && HELD.test(queueReason)
    const { id, status } = await this.#waitForRun(title, (run) => isOver(run) || isHeld(run))
    expect([title, status]).not.toEqual([title, 'completed'])
    if (status !== 'queued') return
    await this.ask('POST', `/api/runs/${id}/cancel`)
    // A change of the configuration gives the next run its own try.
    this.#retentionHours += 1
    const patch = { sandbox: { retentionHours: this.#retentionHours } }
    expect(await this.ask('PUT', '/api/settings', { patch })).toMatchObject({ status: 200 })
  }

  async #waitForRun(title: string, isSo: (run: Run) => boolean): Promise<Run> {
    let found: Run | undefined
    const check = async (): Promise<boolean> => {
      found = (await this.runs()).find(({ ticket }) => ticket.title === title)
      return found !== undefined && isSo(found)
    }
    await until(`the run of ${title} has come to an end`, check, WAIT_MS, 50)
    return found as Run // or the wait would have failed
  }

  /** Calls every GET route, for every existing object. */
  async readEverything(): Promise<void> {
    const runs = await this.runs()
    const parts = ['', '/events', '/placement', '/explain', '/pr']
    const ofRun = (id: string) => parts.map((rest) => `/api/runs/${id}${rest}`)
    const paths = [
      ...['health', 'config', 'openapi.json', 'tickets', 'workers', 'connect/storage', 'codehost/repos'],
      ...[
        'pulls',
        'pulls/plain/1',
        'tracker/projects',
        'tracker/status',
        'attention',
        'memories',
        'connect/tracker/callback?state=x&code=y',
      ],
    ].map((path) => `/api/${path}`)
    const all = ['/metrics', ...paths, ...runs.flatMap(({ id }) => ofRun(id))]
    await Promise.all(all.map((path) => this.ask('GET', path)))
  }

  /** The places where a secret was found that must not be there. */
  async close(): Promise<string[]> {
    const sightings = this.watch.stop()
    const kept = readFileSync(this.#config, 'latin1')
    const instant = /"tokenExpiresAt": *"([^"]+)"/.exec(kept)?.[1]
    // A nearby timestamp could belong to anything else.
    if (instant !== undefined && Date.parse(instant) > Date.now() + FAR_MS)
      this.town.plants.plant('end of the last token', instant)
    this.host.process.kill('SIGTERM')
    await this.host.exit
    this.#dashboard?.close()
    this.#inspector?.close()
    // Positive control: the inspector has seen the actors at work.
    expect(JSON.stringify(this.#inspector?.frames)).toContain('"is":"event"')
    const shown: [what: string, text: string][] = [
      ...lines('the log', this.host.out() + this.host.err()),
      ...this.answers,
      ...[...(this.#dashboard?.frames ?? []), ...(this.#inspector?.frames ?? [])].map(
        (frame): [string, string] => [`push ${frame.type}`, JSON.stringify(frame)],
      ),
      ...readFilesBelow(this.folder).filter(
        ([path]) => path !== this.#config && !path.endsWith('/.codex/auth.json'),
      ),
      // An agent's own files may contain its own key.
      ...readFilesBelow(sandboxFolder()).filter(([path]) => !/\/sandboxes\/[^/]+\/home\//.test(path)),
      ...this.town.sink.requests.map((text): [string, string] => ['somebody else', text]),
    ]
    const found = shown.flatMap(([what, text]) =>
      this.town.plants
        .findIn(text)
        .map((name) => `${name} in ${what}: ${excerptAround(this.town.plants, text)}`),
    )
    const inProcesses = sightings
      .filter((sighting) => !isAllowedSighting(sighting))
      .map(({ name, where }) => `${name} in ${where}`)
    expect(statSync(this.#config).mode & 0o777).toBe(0o600)
    // Positive control: the search must find the secrets where they have to be.
    expect(this.town.plants.findIn(kept).length).toBeGreaterThanOrEqual(KEPT_MIN)
    return [...new Set([...found, ...inProcesses])]
  }
}

/** Allowed: a process's own start parameters. The agent's key is in no process's environment, not even in a sandbox. */
function isAllowedSighting({ name, where }: SecretSighting): boolean {
  if (!where.startsWith('environment of ')) return false
  // A starting process has no arguments yet, and the wrangler stub runs `env` on purpose.
  if (name === 'own token of the bucket' && /wrangler|^environment of (env *)?$/.test(where)) return true
  return /^(own|helper's)/.test(name) && /\/switchyard (serve|oauth-helper)/.test(where)
}

const lines = (what: string, text: string): [string, string][] =>
  text.split('\n').map((line): [string, string] => [what, line])

/** An excerpt around the secret that shows its origin. */
function excerptAround(plants: PlantedSecrets, text: string): string {
  const line = text.split('\n').find((candidate) => plants.findIn(candidate).length > 0) ?? ''
  return line.slice(0, 400)
}

function ticket({ linear }: Providers, title: string, steps: readonly string[] = TICKET): void {
  const description = ['Please.', '```switchyard', ...steps, '```', ''].join('\n')
  linear.world.issue({ title, description, state: 'Todo' })
}

// ---- tricks --------------------------------------------------------------------------------------------------------

/**
 * Each run draws a random selection; `SECRET_TRICKS=all` uses every trick, `SEED=` repeats a selection. The first trick
 * is always included.
 */
const TRICKS_PLAYED = process.env.SECRET_TRICKS === 'all' ? Number.POSITIVE_INFINITY : 5
const SEED = drawSeed()

function tricksOf(town: Providers): readonly Misbehaviour[] {
  const [first, ...others] = allTricks(town)
  const random = new Random(SEED)
  const drawn = others
    .map((trick) => ({ trick, lot: random.fraction() }))
    .sort((a, b) => a.lot - b.lot)
    .map(({ trick }) => trick)
  process.stdout.write(`tricks of SEED=${SEED}\n`)
  return [...(first === undefined ? [] : [first]), ...drawn].slice(0, TRICKS_PLAYED)
}

const allTricks = ({ sink }: Providers): readonly Misbehaviour[] => [
  { kind: 'page', status: 502 },
  { kind: 'page', status: 200 },
  { kind: 'complaint', status: 200 },
  { kind: 'complaint', status: 400 },
  { kind: 'complaint', status: 422 },
  { kind: 'complaint', status: 404 },
  { kind: 'complaint', status: 403 },
  { kind: 'complaint', status: 500 },
  { kind: 'oauth', status: 400, error: 'invalid_request' },
  { kind: 'oauth', status: 400 },
  { kind: 'oauth', status: 502 },
  { kind: 'oauth', status: 200 },
  { kind: 'broken JSON' },
  { kind: 'headers', status: 404 },
  { kind: 'redirect', status: 302, to: sink.url },
  { kind: 'redirect', status: 307, to: sink.url },
  { kind: 'links', to: sink.url },
  { kind: 'reset' },
  { kind: 'slow', ms: 200 },
]

/** A trick of each group of similar ones. */
const isForHelpers = (trick: Misbehaviour): boolean =>
  trick.kind === 'oauth' ||
  (trick.kind === 'redirect' && trick.status === 307) ||
  (trick.kind === 'page' && trick.status === 502) ||
  (trick.kind === 'complaint' && trick.status === 400)

async function runWithTrick(
  proxy: MisbehavingProxy,
  trick: Misbehaviour,
  when: RegExp,
  during: () => Promise<unknown>,
): Promise<number> {
  const before = proxy.misbehavedCount
  Object.assign(proxy, { misbehaviour: trick, appliesTo: when })
  try {
    await during()
    return proxy.misbehavedCount - before
  } finally {
    Object.assign(proxy, { misbehaviour: undefined, appliesTo: /./ })
  }
}

/** Triggers every call to the providers; returns how often each was tricked. */
function callProvidersDuring(witness: Witness, trick: Misbehaviour): Promise<number[]> {
  const { tracker, codehost } = witness.town
  const reads = async (): Promise<void> => {
    await witness.readEverything()
    await Promise.all([
      witness.ask('POST', '/api/pulls/plain/1/comment', { body: 'Hello' }),
      witness.ask('POST', '/api/pulls/plain/1/resolve-thread', { threadId: 'x', resolved: true }),
    ])
  }
  const polls = async (): Promise<void> => {
    const before = tracker.misbehavedCount
    await witness.ask('GET', '/api/tracker/projects')
    await until('a poll meets it', () => tracker.misbehavedCount > before + 1, POLL_WAIT_MS, 50).catch(
      () => {},
    )
  }
  return Promise.all([runWithTrick(codehost, trick, /./, reads), runWithTrick(tracker, trick, /./, polls)])
}

/** A logged-in program whose uploads fail with all that it knows. */
function writeFailingBucket(folder: string): string {
  const bin = join(folder, 'bucket')
  mkdirSync(bin)
  const identity = '{"loggedIn":true,"email":"dev@example.test","accounts":[{"id":"0","name":"Dev"}]}'
  const cases = [
    '--version) echo 4.86.0;;',
    `whoami) echo '${identity}';;`,
    `*) echo "$@" >> ${join(folder, 'uploads')}; env; env >&2; exit 1;;`,
  ]
  writeFileSync(join(bin, 'wrangler'), `#!/bin/sh\ncase "$1" in\n${cases.join('\n')}\nesac\n`, {
    mode: 0o755,
  })
  return bin
}

test('the watch sees secrets of processes that a process of its root starts later', async () => {
  const plants = new PlantedSecrets()
  const secret = plants.plant('a secret', hex())
  const script = 'read go; sh -c "read end" -- "$go"; read end'
  const root = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'] })
  endings.push(() => root.kill('SIGKILL'))
  const watch = new ProcessWatcher(plants, [root.pid ?? 0])
  watch.scan()
  root.stdin.write(`${secret}\n`)
  const isSeen = () => {
    watch.scan()
    return watch.stop().length > 0
  }
  await until('it is seen', isSeen, WAIT_MS)
  expect(watch.stop()).toEqual([
    { name: 'a secret', where: expect.stringMatching(/^arguments of sh -c read end/), inSandbox: false },
  ])
})

describe('with everything planted', () => {
  test(
    'a run, its pull request, and every route while providers echo everything',
    async () => {
      const town = await startProviders()
      const token = town.plants.plant('own token of the bucket', `cloudflare-${hex()}`)
      const witness = new Witness(town, configOf(town), { CLOUDFLARE_API_TOKEN: token })
      witness.onPath(writeFailingBucket(witness.folder))
      await witness.open()
      ticket(town, 'All goes well')
      const run = await witness.ends('All goes well')
      expect([run.status, run.error]).toEqual(['completed', undefined])
      expect(run.prUrl).toContain(town.codehost.url)
      await until('artifacts are uploaded', () => existsSync(join(witness.folder, 'uploads')), WAIT_MS, 50)
      await witness.readEverything()
      for (const trick of tricksOf(town)) {
        const met = await callProvidersDuring(witness, trick)
        expect([trick, met.every((times) => times > 0)]).toEqual([trick, true])
      }
      // After these failures the host pauses its requests for a while.
      for (const status of [401, 429]) await callProvidersDuring(witness, { kind: 'complaint', status })
      expect(JSON.stringify(witness.answers)).toContain('the rate limit of GitHub is reached')
      expect(await witness.close()).toEqual([])
    },
    TEST_MS_MAX,
  )

  test(
    'runs whose clone, push or pull request meets a code host that echoes everything',
    async () => {
      const town = await startProviders()
      const witness = await new Witness(town, configOf(town)).open()
      const { sink, codehost } = town
      const away: Misbehaviour = { kind: 'redirect', status: 307, to: sink.url }
      const cases: readonly (readonly [string, RegExp, Misbehaviour])[] = [
        ['clone refused', /upload-pack/, { kind: 'complaint', status: 403 }],
        ['clone redirected', /upload-pack/, { ...away, status: 302 }],
        // An outage is left out, because every call would wait for its end.
        ['clone broken', /upload-pack/, { kind: 'page', status: 400 }],
        ['push refused', /receive-pack/, { kind: 'complaint', status: 403 }],
        ['push redirected', /receive-pack/, away],
        ['pull refused', /POST .*\/pulls$/, { kind: 'complaint', status: 422 }],
        ['pull forbidden', /POST .*\/pulls$/, { kind: 'complaint', status: 403 }],
        ['pull redirected', /POST .*\/pulls$/, away],
        ['pull headers', /(GET|POST) .*\/pulls/, { kind: 'headers', status: 404 }],
      ]
      for (const [title, when, trick] of cases) {
        const met = await runWithTrick(codehost, trick, when, async () => {
          ticket(town, title)
          await witness.goesWrong(title)
        })
        expect([title, met > 0]).toEqual([title, true])
      }
      await witness.readEverything()
      expect(await witness.close()).toEqual([])
    },
    TEST_MS_MAX,
  )
})

// ---- connecting ----------------------------------------------------------------------------------------------------

const CALLBACK = '/api/connect/tracker/callback'

/** Invalid keys. */
function plantBadKeys(plants: PlantedSecrets): Record<string, string> {
  return {
    trackerApiKey: plants.plant('bad tracker key', `lin_api_${hex()}${TOKEN_SUFFIX}`),
    codehostToken: plants.plant('bad codehost token', `ghp_${hex()}${TOKEN_SUFFIX}`),
    agentAApiKey: plants.plant('bad agentA key', `sk-ant-api03-${hex()}${TOKEN_SUFFIX}`),
    agentCApiKey: plants.plant('bad agentC key', `AIza${hex()}${TOKEN_SUFFIX}`),
  }
}

/** Visits the consent page, through the helper if there is one, and returns with the person's decision. */
async function visitConsent(witness: Witness, decision: 'approve' | 'refuse' = 'approve'): Promise<URL> {
  const { linear, plants } = witness.town
  const begun = (await witness.ask('POST', '/api/connect/tracker', undefined, true)).body as { url: string }
  const isOurs = !begun.url.includes('/oauth/tracker/authorize')
  const sentOn = isOurs ? undefined : await fetch(begun.url, { redirect: 'manual' })
  const { pathname, search } = new URL(sentOn?.headers.get('location') ?? begun.url)
  const back = linear.consent(`${linear.url}${pathname}${search}`, decision)
  for (const name of ['code', 'state']) {
    const value = back.searchParams.get(name)
    if (value !== null) plants.plant(`${name} of a journey`, value)
  }
  return back
}

/** Programs that print all they know. Codex is logged in with a key. */
function writeStubs(folder: string, home: string, plants: PlantedSecrets): string {
  const bin = join(folder, 'stubs')
  mkdirSync(bin, { recursive: true })
  for (const name of ['claude', 'codex', 'wrangler'])
    writeFileSync(join(bin, name), `#!/bin/sh\necho "$@"\nenv\nenv >&2\n[ ${name} = codex ]\n`, {
      mode: 0o755,
    })
  mkdirSync(join(home, '.codex'), { recursive: true })
  const login = { OPENAI_API_KEY: plants.plant("codex' own key", `sk-proj-${hex()}${TOKEN_SUFFIX}`) }
  writeFileSync(join(home, '.codex', 'auth.json'), JSON.stringify(login), { mode: 0o600 })
  return bin
}

async function withFixedPort(town: Providers, config: object): Promise<object> {
  const port = await freePort()
  const redirectUris = [`http://localhost:${port}${CALLBACK}`]
  Object.assign(town.linear.app, { redirectUris })
  return { ...config, server: { port } }
}

/** Secrets that the host is asked to store, and that the provider refuses. */
async function everyConnectFlow(witness: Witness): Promise<void> {
  const { plants } = witness.town
  for (const provider of ['agentA', 'agentB', 'agentC', 'storage'])
    await witness.ask('POST', `/api/connect/${provider}`)
  await witness.ask('PUT', '/api/settings/credentials', plantBadKeys(plants))
  const back = await visitConsent(witness)
  const forged = new URL(back)
  forged.searchParams.set('state', 'x'.repeat(43))
  await witness.ask('GET', forged.pathname + forged.search)
  await witness.ask('GET', back.pathname + back.search)
  await witness.ask('POST', '/api/connect/tracker/paste', { address: back.href })
  const refused = await visitConsent(witness, 'refuse')
  refused.searchParams.set('error', `no ${refused.searchParams.get('state')}`)
  await witness.ask('GET', refused.pathname + refused.search)
  await witness.ask('GET', '/api/config')
}

/** Starts a device code while providers work, and polls it while they fail. */
async function startDeviceFlow(witness: Witness): Promise<void> {
  const before = witness.town.codehost.requests.length
  await witness.ask('POST', '/api/connect/codehost')
  expect(witness.town.codehost.requests.length).toBeGreaterThan(before)
}

async function pollUntilTricked(witness: Witness, proxy: MisbehavingProxy): Promise<void> {
  const before = proxy.misbehavedCount
  const isAsked = async (): Promise<boolean> => {
    await witness.ask('POST', '/api/connect/codehost/poll')
    return proxy.misbehavedCount > before
  }
  await until('the code host is asked about a code', isAsked, WAIT_MS, 100)
}

/** Secrets of a flow that only the service and the providers know. */
function plantWhatWasSent({ plants, codehost, tracker }: Providers): void {
  for (const { body } of [...codehost.requests, ...tracker.requests]) {
    const form = new URLSearchParams(body)
    for (const name of ['device_code', 'code_verifier']) {
      const value = form.get(name)
      if (value !== null) plants.plant(name, value)
    }
  }
}

async function runDuringTrick(
  witness: Witness,
  mirrors: readonly MisbehavingProxy[],
  trick: Misbehaviour,
  during: () => Promise<void>,
): Promise<void> {
  const before = mirrors.map((proxy) => proxy.misbehavedCount)
  for (const proxy of mirrors) proxy.misbehaviour = trick
  await during()
  for (const proxy of mirrors) proxy.misbehaviour = undefined
  const met = mirrors.map((proxy, n) => proxy.misbehavedCount > (before[n] ?? 0))
  expect([trick, met]).toEqual([trick, mirrors.map(() => true)])
  plantWhatWasSent(witness.town)
}

describe('every way to connect', () => {
  test(
    'fails in every way with providers and programs that echo everything',
    async () => {
      const town = await startProviders()
      const { plants, tracker, codehost, vendors } = town
      const config = await withFixedPort(town, configOf(town, { tracker: shortenTokenLifetime(town) }))
      const witness = new Witness(town, config, {
        SWITCHYARD_TOKEN: plants.plant('own launch token', `launch-${hex()}`),
        ANTHROPIC_API_KEY: plants.plant('own key of the vendor', `sk-ant-api03-${hex()}${TOKEN_SUFFIX}`),
        CLOUDFLARE_API_TOKEN: plants.plant('own token of the bucket', `cloudflare-${hex()}`),
      })
      witness.onPath(writeStubs(witness.folder, witness.home, plants))
      await witness.open()
      for (const trick of tricksOf(town)) {
        await startDeviceFlow(witness)
        await runDuringTrick(witness, [tracker, codehost, vendors], trick, async () => {
          await everyConnectFlow(witness)
          await pollUntilTricked(witness, codehost)
        })
      }
      expect(
        tracker.requests.filter(({ body }) => body.includes('grant_type=refresh_token')).length,
      ).toBeGreaterThan(1)
      expect(await witness.close()).toEqual([])
    },
    TEST_MS_MAX,
  )

  test(
    'goes through the helper, which reveals neither received nor own secrets',
    async () => {
      const town = await startProviders()
      const { plants, linear, tracker, codehost, github } = town
      const secretFile = join(tempFolder(), 'secret')
      writeFileSync(secretFile, linear.app.clientSecret, { mode: 0o600 })
      github.device.settings.clientId = plants.plant("helper's id at the code host", `Iv1.${hex()}`)
      const helper = command(
        ['oauth-helper', '--port', '0', '--log-level', 'debug', '--requests-per-minute', '100000'],
        '',
        {
          CODEHOST_CLIENT_ID: github.device.settings.clientId,
          TRACKER_CLIENT_ID: linear.app.clientId,
          TRACKER_CLIENT_SECRET_FILE: secretFile,
          SWITCHYARD_TRACKER_URL: tracker.url,
          SWITCHYARD_CODEHOST_URL: codehost.url,
        },
      )
      const helperUrl = (): string | undefined => /"url":"([^"]+)"/.exec(helper.err())?.[1]
      await until('the helper serves', () => helperUrl() !== undefined)
      const front = await startMisbehavingProxy(helperUrl() ?? '')
      endings.push(() => front.close())
      const own = { apiBase: front.url, codehostClientId: '', trackerClientId: '' }
      const config = await withFixedPort(
        town,
        configOf(town, { connect: own, tracker: shortenTokenLifetime(town) }),
      )
      const witness = await new Witness(town, config).open()
      witness.watch.add(helper.process.pid ?? 0)
      const isRefused = { kind: 'oauth', status: 401, error: 'invalid_client' } as const
      for (const trick of [...allTricks(town).filter(isForHelpers), isRefused]) {
        await startDeviceFlow(witness)
        await runDuringTrick(witness, [tracker, codehost], trick, async () => {
          await everyConnectFlow(witness)
          await pollUntilTricked(witness, codehost)
        })
        await startDeviceFlow(witness)
        const journey = await visitConsent(witness)
        await runDuringTrick(witness, [front], trick, async () => {
          await witness.ask('GET', journey.pathname + journey.search)
          await pollUntilTricked(witness, front)
        })
      }
      expect(front.requests.filter(({ path }) => path.endsWith('/refresh')).length).toBeGreaterThan(1)
      witness.answers.push(...lines("the helper's log", helper.out() + helper.err()))
      expect(await witness.close()).toEqual([])
    },
    TEST_MS_MAX,
  )

  test(
    'succeeds but cannot be stored: the error does not contain the secret',
    async () => {
      const town = await startProviders()
      const { plants, linear, github } = town
      const config = await withFixedPort(town, configOf(town))
      const witness = new Witness(town, config)
      // The name is so long that no temporary file can be created beside it.
      witness.keepConfigAt('c'.repeat(LONGEST_NAME))
      await witness.open()
      const token = `ghp_${hex()}`
      github.addToken('mona', token)
      const good = {
        trackerApiKey: plants.plant('good tracker key', linear.apiKey + TOKEN_SUFFIX),
        codehostToken: plants.plant('good codehost token', token + TOKEN_SUFFIX),
      }
      const put = await witness.ask('PUT', '/api/settings/credentials', good)
      expect(put.body).toMatchObject({ results: { tracker: { ok: false }, codehost: { ok: false } } })
      const back = await visitConsent(witness)
      expect((await witness.ask('GET', back.pathname + back.search)).status).not.toBe(200)
      await startDeviceFlow(witness)
      for (const code of github.device.userCodes) github.device.approve(code, 'mona')
      const isOver = async (): Promise<boolean> =>
        JSON.stringify((await witness.ask('POST', '/api/connect/codehost/poll')).body).includes('"error"')
      await until('the flow fails', isOver, WAIT_MS, 100)
      plantWhatWasSent(town)
      await witness.ask('PUT', '/api/settings', {
        patch: { agent: { agentAApiKey: plantBadKeys(plants).agentAApiKey } },
      })
      expect(await witness.close()).toEqual([])
    },
    TEST_MS_MAX,
  )
})

const LONGEST_NAME = 255
const ACCESS_MS = 4_000

/** The token's lifetime makes the host refresh it all the time. */
function shortenTokenLifetime(town: Providers): object {
  town.linear.accounts.accessMs = ACCESS_MS
  return { tokenExpiresAt: new Date(Date.now() + ACCESS_MS).toISOString() }
}
