/** Checks of the agent vendors' keys, and logins found on this machine. */
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock } from '../../../../bin/process/clock.ts'
import type { ServiceConfig } from '../../../../protocol/config.ts'
import { PROGRAM_MS_MAX } from '../../../../protocol/limits.ts'
import type { AccountsPorts } from '../../../../providers/accounts/accounts.ts'
import { LOGIN_FILE_BYTES_MAX } from '../../../../providers/accounts/agents/agent-account.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'
import { startUpstream } from '../../oauth-helper/helper-fixture.ts'
import { configWith, createTestAccounts, refusedAs } from './accounts-fixture.ts'

const SETUP_TOKEN = `sk-ant-oat01-${'planted'.repeat(10)}`

async function startVendors() {
  const upstream = await startUpstream()
  const bases = { agentA: upstream.url, agentB: upstream.url, agentC: upstream.url }
  const accounts = createTestAccounts({ baseUrls: bases })
  const check = (agent: Partial<ServiceConfig['agent']>, provider: 'agentA' | 'agentB' | 'agentC') =>
    accounts.checkAgent(configWith({ agent }), provider)
  return { upstream, check, bases }
}

describe('a key', () => {
  test.each([
    ['agentA', { agentAApiKey: 'sk-ant-api03-planted' }, '/v1/models?limit=1', 'Anthropic', 'x-api-key'],
    ['agentB', { agentBApiKey: 'sk-planted' }, '/v1/models', 'OpenAI', 'authorization'],
    ['agentC', { agentCApiKey: 'AIzaPlanted' }, '/v1beta/models?pageSize=1', 'Google', 'x-goog-api-key'],
  ] as const)(
    'of %s is asked about with one question, without the key in its address',
    async (provider, agent, path, who, header) => {
      const { upstream, check } = await startVendors()
      expect(await check(agent, provider)).toMatchObject({ ok: true, value: expect.stringContaining(who) })
      expect(upstream.asked).toMatchObject([{ method: 'GET', path }])
      expect(upstream.lastHeaders[header]).toMatch(/planted$/i)
    },
  )

  test.each([
    ['agentA', 401, { error: { message: 'invalid x-api-key planted-key-1' } }, 'unauthorized'],
    ['agentA', 403, { error: { message: 'disabled' } }, 'unauthorized'],
    ['agentA', 529, '', 'unavailable'],
    ['agentA', 404, '', 'failed'],
    ['agentB', 401, { error: { message: 'Incorrect API key provided: planted-key-1' } }, 'unauthorized'],
    ['agentB', 403, { error: { message: 'Country not supported' } }, 'unauthorized'],
    ['agentC', 400, { error: { message: 'API key not valid.' } }, 'unauthorized'],
    ['agentC', 403, { error: { message: 'blocked' } }, 'unauthorized'],
    ['agentC', 500, '', 'unavailable'],
  ] as const)(
    'of %s that is answered with %i is refused and not repeated',
    async (provider, status, body, kind) => {
      const { upstream, check } = await startVendors()
      upstream.answer = { status, body }
      const key = 'planted-key-1'
      const answer = await check({ agentAApiKey: key, agentBApiKey: key, agentCApiKey: key }, provider)
      expect(answer).toMatchObject(refusedAs(kind))
      expect(JSON.stringify(answer)).not.toContain('planted')
    },
  )

  test('of OpenAI without the right to list models is accepted', async () => {
    const { upstream, check } = await startVendors()
    upstream.answer = { status: 403, body: { error: { message: 'Missing scopes: api.model.read' } } }
    expect(await check({ agentBApiKey: 'sk-x' }, 'agentB')).toMatchObject({ ok: true })
  })

  test('that is incomplete or of another kind is refused without a request', async () => {
    const { upstream, check } = await startVendors()
    expect(await check({ agentAApiKey: SETUP_TOKEN }, 'agentA')).toMatchObject({ ok: true })
    expect(await check({ agentAOauthToken: SETUP_TOKEN }, 'agentA')).toMatchObject({ ok: true })
    expect(await check({ agentAOauthToken: 'sk-ant-oat01-x' }, 'agentA')).toMatchObject(refusedAs('invalid'))
    expect(await check({ agentAApiKey: 'sk-ant-ort01-xxxxx' }, 'agentA')).toMatchObject(
      refusedAs('invalid', /setup-token/),
    )
    for (const provider of ['agentA', 'agentB', 'agentC'] as const)
      expect(await check({}, provider)).toMatchObject(refusedAs('invalid'))
    expect(upstream.asked).toEqual([])
  })

  test('copied logins are checked by their form, without a request', async () => {
    const { upstream, check } = await startVendors()
    expect(await check({ agentBLogin: codexFile() }, 'agentB')).toEqual({
      ok: true,
      value: 'ChatGPT (pro), ada@x.example',
    })
    expect(await check({ agentBLogin: '{}' }, 'agentB')).toMatchObject(refusedAs('invalid'))
    expect(await check({ agentCLogin: '{"refresh_token":"r"}' }, 'agentC')).toMatchObject({ ok: true })
    expect(await check({ agentCLogin: 'x' }, 'agentC')).toMatchObject(refusedAs('invalid'))
    expect(upstream.asked).toEqual([])
  })
})

// ---- logins of this machine ------------------------------------------------------------------------------------------

function codexFile(): string {
  const claims = { email: 'ada@x.example', 'https://api.openai.com/auth': { chatgpt_plan_type: 'pro' } }
  const idToken = `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`
  const tokens = { id_token: idToken, access_token: 'planted-a', refresh_token: 'planted-r', account_id: 'x' }
  return JSON.stringify({ auth_mode: 'chatgpt', OPENAI_API_KEY: null, tokens })
}

const HOUR_MS = 3_600_000

function claudeFile(leftMs: number): string {
  const login = {
    accessToken: SETUP_TOKEN,
    refreshToken: 'sk-ant-ort01-x',
    expiresAt: Date.now() + leftMs,
    subscriptionType: 'max',
  }
  return JSON.stringify({ claudeAiOauth: login })
}

/** Creates a home folder with fake agent programs. */
function createHome() {
  const folder = tempFolder()
  const bin = join(folder, 'bin')
  for (const name of ['bin', '.claude', '.codex', '.gemini']) mkdirSync(join(folder, name))
  const program = (name: string, script: string): void => {
    writeFileSync(
      join(bin, name),
      `#!/bin/sh\nenv > ${folder}/${name}.env\npwd > ${folder}/${name}.pwd\n${script}\n`,
    )
    chmodSync(join(bin, name), 0o755)
  }
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const find = (
    provider: 'agentA' | 'agentB' | 'agentC',
    env: Record<string, string> = {},
    more: Partial<AccountsPorts> = {},
  ) =>
    createTestAccounts({
      environment: { PATH: `${bin}:/usr/bin:/bin`, HOME: folder, PLANTED: 'x', ...env },
      ...more,
    }).findAgentLogin(provider)
  return { folder, program, file, find }
}

describe('a login of Claude Code', () => {
  const loggedIn = 'echo \'{"loggedIn":true,"authMethod":"claude.ai"}\''

  test('is used through its access token when that lasts, and the detail states until when', async () => {
    const { program, file, find, folder } = createHome()
    program('claude', loggedIn)
    file('.claude/.credentials.json', claudeFile(8 * HOUR_MS))
    expect(await find('agentA')).toEqual({
      ok: true,
      value: {
        detail: expect.stringMatching(/\(max\).*until .* UTC.*setup-token/),
        credential: { agentAOauthToken: SETUP_TOKEN },
      },
    })
    expect(readFileSync(join(folder, 'claude.env'), 'utf8')).not.toContain('PLANTED')
    expect(readFileSync(join(folder, 'claude.pwd'), 'utf8')).not.toContain(process.cwd())
  })

  test.each([
    ['the program is not there', undefined, 8 * HOUR_MS, /not installed/],
    ['nobody is logged in', 'echo \'{"loggedIn":false}\'; exit 1', 8 * HOUR_MS, /nobody is logged in/],
    ['the program prints something else', 'echo hello', 8 * HOUR_MS, /nobody is logged in/],
    ['it expires within the hour', loggedIn, HOUR_MS / 2, /within the hour/],
    ['it is in no file', loggedIn, undefined, /no file/],
  ])('is refused when %s, and the refusal names setup-token', async (_what, script, leftMs, why) => {
    const { program, file, find } = createHome()
    if (script !== undefined) program('claude', script)
    if (leftMs !== undefined) file('.claude/.credentials.json', claudeFile(leftMs))
    const answer = await find('agentA')
    expect(answer).toMatchObject(refusedAs('invalid', why))
    expect(answer).toMatchObject(refusedAs('invalid', /claude setup-token/))
    expect(JSON.stringify(answer)).not.toContain('planted')
  })

  test.each([
    ['a link', (at: string, target: string) => symlinkSync(target, at)],
    ['a file of another user', (at: string, target: string) => linkSync(target, at)],
    ['a file longer than a login', (at: string) => writeFileSync(at, 'x'.repeat(LOGIN_FILE_BYTES_MAX + 1))],
    ['a folder', (at: string) => mkdirSync(at)],
  ])('is not read from %s', async (what, make) => {
    const { program, file, find, folder } = createHome()
    program('claude', loggedIn)
    const target = file('elsewhere', claudeFile(8 * HOUR_MS))
    make(join(folder, '.claude', '.credentials.json'), target)
    const uid = what === 'a file of another user' ? 12_345 : (process.getuid?.() ?? 0)
    expect(await find('agentA', {}, { uid })).toMatchObject(refusedAs('invalid', /no file/))
  })

  test('the environment comes first, and a key in it is checked', async () => {
    const { upstream, bases } = await startVendors()
    const { find } = createHome()
    expect(
      await find('agentA', { CLAUDE_CODE_OAUTH_TOKEN: SETUP_TOKEN, ANTHROPIC_API_KEY: 'sk-ant-api03-x' }),
    ).toMatchObject({
      value: { credential: { agentAOauthToken: SETUP_TOKEN } },
    })
    expect(await find('agentA', { ANTHROPIC_API_KEY: 'sk-ant-api03-x' }, { baseUrls: bases })).toMatchObject({
      value: {
        credential: { agentAApiKey: 'sk-ant-api03-x' },
        detail: expect.stringContaining('ANTHROPIC_API_KEY'),
      },
    })
    upstream.answer = { status: 401, body: {} }
    expect(await find('agentA', { ANTHROPIC_API_KEY: 'sk-ant-api03-x' }, { baseUrls: bases })).toMatchObject(
      refusedAs('unauthorized'),
    )
    expect(await find('agentA', { ANTHROPIC_API_KEY: 'two words' }, { baseUrls: bases })).toMatchObject(
      refusedAs('invalid'),
    )
  })
})

describe('a login of Codex', () => {
  const loggedIn = 'echo "Logged in using ChatGPT" >&2'

  test('is its whole file, and the detail names its owner', async () => {
    const { program, file, find } = createHome()
    program('codex', loggedIn)
    file('.codex/auth.json', codexFile())
    expect(await find('agentB')).toEqual({
      ok: true,
      value: { detail: 'ChatGPT (pro), ada@x.example', credential: { agentBLogin: codexFile() } },
    })
  })

  test('is found in the folder that CODEX_HOME names', async () => {
    const { program, find } = createHome()
    program('codex', loggedIn)
    const codexHome = tempFolder()
    writeFileSync(join(codexHome, 'auth.json'), codexFile(), { mode: 0o600 })
    expect(await find('agentB', { CODEX_HOME: codexHome })).toMatchObject({ ok: true })
  })

  test('that holds only a key is used as a key once OpenAI accepts it', async () => {
    const { upstream, bases } = await startVendors()
    const { program, file, find } = createHome()
    program('codex', loggedIn)
    file('.codex/auth.json', JSON.stringify({ auth_mode: 'apikey', OPENAI_API_KEY: 'sk-planted' }))
    expect(await find('agentB', {}, { baseUrls: bases })).toMatchObject({
      value: { credential: { agentBApiKey: 'sk-planted' } },
    })
    upstream.answer = { status: 401, body: {} }
    expect(await find('agentB', {}, { baseUrls: bases })).toMatchObject(refusedAs('unauthorized'))
  })

  test.each([
    ['the program is not there', undefined, true, /not installed/],
    ['nobody is logged in', 'echo "Not logged in" >&2; exit 1', true, /nobody is logged in/],
    ['it is in no file', loggedIn, false, /no file/],
  ])('is refused when %s', async (_what, script, hasFile, why) => {
    const { program, file, find } = createHome()
    if (script !== undefined) program('codex', script)
    if (hasFile) file('.codex/auth.json', codexFile())
    expect(await find('agentB')).toMatchObject(refusedAs('invalid', why))
    expect(await find('agentB')).toMatchObject(refusedAs('invalid', /codex login/))
  })

  test('a program that hangs is killed when the service stops', async () => {
    const { program, file, find, folder } = createHome()
    program(
      'codex',
      `sleep 77 & echo $! > ${folder}/child.new; mv ${folder}/child.new ${folder}/codex.child; wait`,
    )
    file('.codex/auth.json', codexFile())
    const end = new AbortController()
    const found = find('agentB', {}, { stopSignal: end.signal })
    await until('its child to run', () => existsSync(join(folder, 'codex.child')))
    end.abort()
    expect(await found).toMatchObject(refusedAs('invalid'))
    const child = Number(readFileSync(join(folder, 'codex.child'), 'utf8'))
    await until('its child to be gone', () => !isRunning(child))
    expect(await find('agentB', {}, { stopSignal: end.signal })).toMatchObject(refusedAs('invalid'))
  })

  test('a program that hangs is killed together with its children', async () => {
    const { program, file, find, folder } = createHome()
    program(
      'codex',
      `sleep 77 & echo $! > ${folder}/child.new; mv ${folder}/child.new ${folder}/codex.child; wait`,
    )
    file('.codex/auth.json', codexFile())
    let late = (): void => {}
    const patient = {
      ...realClock,
      after: (ms: number, run: () => void) => {
        if (ms !== PROGRAM_MS_MAX) return realClock.after(ms, run)
        late = run
        return () => {}
      },
    }
    const found = find('agentB', {}, { clock: patient })
    await until('its child to run', () => existsSync(join(folder, 'codex.child')))
    late()
    expect(await found).toMatchObject(refusedAs('invalid', /did not answer/))
    const child = Number(readFileSync(join(folder, 'codex.child'), 'utf8'))
    await until('its child to be gone', () => !isRunning(child))
  })
})

describe('Gemini', () => {
  test('is connected with its command’s login when no key exists', async () => {
    const { file, find } = createHome()
    const login = JSON.stringify({ refresh_token: 'planted', token_type: 'Bearer' })
    file('.gemini/oauth_creds.json', login)
    expect(await find('agentC')).toMatchObject({ value: { credential: { agentCLogin: login } } })
    file('.gemini/oauth_creds.json', '{}')
    expect(await find('agentC')).toMatchObject(refusedAs('invalid', /API key/))
  })

  test('is found by a key in the environment', async () => {
    const { bases } = await startVendors()
    const { find } = createHome()
    expect(await find('agentC')).toMatchObject(refusedAs('invalid', /API key/))
    expect(await find('agentC', { GEMINI_API_KEY: 'AIzaX' }, { baseUrls: bases })).toMatchObject({
      value: { credential: { agentCApiKey: 'AIzaX' } },
    })
  })
})

/** Whether the process exists and is no zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    // The process ended, perhaps during the read.
    return false
  }
}
