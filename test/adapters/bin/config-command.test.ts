/** `switchyard config` against a real listener. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { describe, get } from '../../../bin/cli/settings/config.ts'
import { set, unset } from '../../../bin/cli/settings/config-change.ts'
import { no, yes } from '../../../core/result.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { runCommand, serve } from '../../support/command-process.ts'
import { tempFolder } from '../../support/temp-folder.ts'

async function openConfigured() {
  const host = await openCommandHost()
  const config = {
    ...configDefaults,
    tracker: { ...configDefaults.tracker, apiKey: '***' },
    repos: { 'my.repo': { remote: 'acme/lamps' } },
  }
  host.hostApi.config = () => config
  host.hostApi.changed = () => yes({ config, applied: 'restart' })
  return { ...host, config }
}

test('config get prints one setting, a section, or all, with secrets masked', async () => {
  const { print, config } = await openConfigured()
  expect((await print((context) => get(context, 'tracker.apiKey'))).out).toBe('***\n')
  expect((await print((context) => get(context, 'tracker.eligible.states'))).out).toBe('["Todo"]\n')
  expect((await print((context) => get(context, 'repos'))).out).toMatch(
    /^KEY\tVALUE\tMEANING\nrepos\.my\.repo\.remote\tacme\/lamps\t[A-Z].+\n$/,
  )
  const all = await print((context) => get(context), { options: { json: true } })
  expect(JSON.parse(all.out)).toEqual(config)
  const ids = await print((context) => get(context, 'storage'), { options: { output: 'id' } })
  expect(ids.out).toBe('storage.bucket\nstorage.publicBaseUrl\n')
  const narrow = await print((context) => get(context), { columns: 60 })
  for (const line of narrow.out.split('\n')) expect(line.length).toBeLessThanOrEqual(60)
})

test.each([
  ['sandbox.concurrency', '4', { sandbox: { concurrency: 4 } }],
  ['tracker.startedState', 'In Progress', { tracker: { startedState: 'In Progress' } }],
  ['tracker.eligible.labels', '["Todo"]', { tracker: { eligible: { labels: ['Todo'] } } }],
  ['repos.my.repo.setup', 'npm ci', { repos: { 'my.repo': { setup: 'npm ci' } } }],
  ['repos.new.remote', 'acme/new', { repos: { new: { remote: 'acme/new' } } }],
])('config set %s %s sends a patch', async (key, value, patch) => {
  const { print, hostApi } = await openConfigured()
  const { err } = await print((context) => set(context, key, value))
  expect(hostApi.patches).toEqual([patch])
  expect(err).toMatch(/next start/)
})

const POWERFUL = 'repos.my.repo.setup'

/** A host that asks for the confirmation of these keys. */
async function openAsking(...keys: string[]) {
  const host = await openConfigured()
  const { refusal } = no('conflict', `${keys[0]} decides a lot`)
  const confirms: unknown[] = []
  host.hostApi.changed = (_, confirm) => {
    confirms.push(confirm)
    return JSON.stringify(confirm) === JSON.stringify(keys)
      ? yes({ config: host.config, applied: 'live' })
      : { ok: false, refusal: { ...refusal, confirm: keys } }
  }
  return { ...host, confirms }
}

test('a setting with power over the machine needs --confirm without a terminal, and --yes is none', async () => {
  const { print, run, hostApi, confirms } = await openAsking(POWERFUL)
  for (const options of [{}, { yes: true }, { confirm: 'tracker.apiUrl' }, { confirm: '' }])
    await expect(print((context) => set(context, POWERFUL, 'npm ci'), { options })).rejects.toMatchObject({
      code: 1,
      message: expect.stringMatching(/^repos\.my\.repo\.setup decides which commands run/),
      cure: `switchyard config set ${POWERFUL} 'npm ci' --confirm ${POWERFUL}`,
    })
  await expect(print((context) => unset(context, POWERFUL))).rejects.toMatchObject({
    cure: `switchyard config unset ${POWERFUL} --confirm ${POWERFUL}`,
  })
  expect(confirms).toEqual(Array.from({ length: 5 }))
  expect((await run('config', 'set', POWERFUL, 'npm ci', '--confirm', POWERFUL)).code).toBe(0)
  expect(hostApi.patches.at(-1)).toEqual({ repos: { 'my.repo': { setup: 'npm ci' } } })
  expect(confirms.at(-1)).toEqual([POWERFUL])
})

test.each([
  [['repos.a,b.setup'], 'repos.a,b.setup'],
  [['repos.w\u0085x.setup'], 'repos.w\ufffdx.setup'],
  [['repos.a.setup', 'sandbox.network'], 'sandbox.network,repos.a.setup,'],
])('the host receives %j as it names them', async (keys, confirm) => {
  const { print, confirms } = await openAsking(...keys)
  const options = { yes: true, confirm }
  const { code } = await print((context) => set(context, 'repos', '{}'), { options })
  expect([code, confirms.at(-1)]).toEqual([0, keys])
})

test('on a terminal the person is asked, and only yes changes it', async () => {
  const { print, confirms } = await openAsking(POWERFUL)
  const change = (input: string) =>
    print((context) => set(context, POWERFUL, 'npm ci'), { input, isTyped: true, columns: 100 })
  for (const answer of ['n\n', '\n']) await expect(change(answer)).rejects.toMatchObject({ code: 1 })
  expect(confirms).toEqual([undefined, undefined])
  const { code, err } = await change('y\n')
  expect([code, confirms.at(-1)]).toEqual([0, [POWERFUL]])
  expect(err).toMatch(/setup decides which commands run in its sandboxes\. Change it\? \[y\/N\]/)
})

test('on a terminal every key is named before the question, however many there are', async () => {
  const keys = Array.from({ length: 9 }, (_, at) => `repos.r${at}.setup`)
  const { print, confirms } = await openAsking(...keys)
  const typed = { input: 'y\n', isTyped: true, columns: 400 } as const
  const { err } = await print((context) => set(context, 'repos', '{}'), typed)
  for (const key of keys) expect(err).toContain(key)
  expect(confirms.at(-1)).toEqual(keys)
})

test('config unset deletes the key', async () => {
  const { print, hostApi } = await openConfigured()
  await print((context) => unset(context, 'repos.my.repo'))
  expect(hostApi.patches).toEqual([{ repos: { 'my.repo': null } }])
})

test('a credential comes from standard input, and the host checks it', async () => {
  const { print, hostApi } = await openConfigured()
  const results = { tracker: { ok: true, detail: 'connected as ann' } }
  hostApi.answers.set('changeCredentials', yes({ results, config: configDefaults }))
  const { out } = await print((context) => set(context, 'tracker.apiKey', undefined), { input: 'lin_1\n' })
  expect(out).toBe('tracker.apiKey: connected as ann\n')
  expect(hostApi.providerCalls).toEqual([{ name: 'changeCredentials', args: [{ trackerApiKey: 'lin_1' }] }])
  expect(hostApi.patches).toEqual([])
})

test('a value that the host refuses is named by the key that was typed', async () => {
  const { print, hostApi } = await openConfigured()
  hostApi.changed = () => no('invalid', '/patch/sandbox/concurrency: must be at least 1, not 0')
  await expect(print((context) => set(context, 'sandbox.concurrency', '0'))).rejects.toMatchObject({
    message: 'sandbox.concurrency: must be at least 1, not 0',
  })
})

test('a credential that does not work is refused with the words of the provider', async () => {
  const { print, hostApi } = await openConfigured()
  const results = { codehost: { ok: false, detail: 'bad credentials' } }
  hostApi.answers.set('changeCredentials', yes({ results, config: configDefaults }))
  const refused = print((context) => set(context, 'codehost.token', undefined), { input: 'x' })
  await expect(refused).rejects.toMatchObject({
    code: 1,
    message: expect.stringContaining('bad credentials'),
  })
})

test('deleting a credential needs --yes without a terminal', async () => {
  const { print, hostApi } = await openConfigured()
  await expect(print((context) => unset(context, 'codehost.token'))).rejects.toMatchObject({ code: 2 })
  hostApi.answers.set('changeCredentials', yes({ results: {}, config: configDefaults }))
  await print((context) => unset(context, 'codehost.token'), { options: { yes: true } })
  expect(hostApi.providerCalls.at(-1)?.args).toEqual([{ codehostToken: '' }])
})

test('the real command takes no secret from its arguments, and no secret that only a flow may write', async () => {
  const { run, hostApi } = await openConfigured()
  const [byArgument, byHand, unknown, elsewhere] = await Promise.all([
    run('config', 'set', 'tracker.apiKey', 'lin_1'),
    run('config', 'set', 'tracker.refreshToken', 'x'),
    run('config', 'get', 'lamp.colour'),
    run('config', 'edit'),
  ])
  expect([byArgument.code, byHand.code, unknown.code, elsewhere.code]).toEqual([2, 2, 1, 2])
  expect(byArgument.err).not.toMatch(/lin_1/)
  expect(byHand.err).toMatch(/switchyard connect tracker/)
  expect([hostApi.patches, hostApi.providerCalls]).toEqual([[], []])
})

test('config edit without a terminal opens only an editor that somebody chose', async () => {
  const folder = tempFolder()
  const env = { VISUAL: '', EDITOR: '' }
  const { exit, out, err } = runCommand(['config', 'edit', '--data-dir', folder], '', env)
  expect([await exit, out(), err()]).toEqual([
    2,
    '',
    expect.stringMatching(
      /^switchyard: config edit needs a terminal, .*\n {2}try: switchyard config set KEY VALUE /,
    ),
  ])
  expect(readdirSync(folder)).toEqual([])
})

test('config edit begins with {} where there is no configuration yet', async () => {
  const dataDir = join(tempFolder(), 'data')
  const file = join(dataDir, 'config.json')
  const editIn = async (folder: string, VISUAL: string) => {
    const { exit, out, err } = runCommand(['config', 'edit', '--data-dir', folder], '', { VISUAL })
    return { code: await exit, out: out(), err: err() }
  }
  expect(await editIn(dataDir, 'cat')).toMatchObject({ code: 0, out: '{}\n' })
  expect([dataDir, file].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600])
  const written = await editIn(dataDir, `echo '{"policy":{"paused":true},"worker":{"local":false}}' >`)
  expect(written).toMatchObject({
    code: 0,
    err: expect.stringMatching(/The next start .*\nNext: switchyard serve --data-dir \S+\n$/),
  })
  await serve(dataDir, ['--port', '0']).waitForLaunch()
  const used = await editIn(dataDir, `echo '{"worker":{"local":false}}' >`)
  expect(used).toMatchObject({
    code: 0,
    err: expect.stringMatching(/The host uses it .*\nNext: switchyard config get --data-dir \S+\n$/),
  })
  expect(await editIn(file, 'cat')).toMatchObject({
    code: 70,
    err: expect.stringMatching(/config\.json cannot be used: ENOTDIR.*\n {2}try: name a folder/),
  })
})

test('config edit opens the file in the editor of the person, and says when it does not validate', async () => {
  const dataDir = tempFolder()
  const file = join(dataDir, 'config.json')
  writeFileSync(file, '{}')
  const editWith = async (VISUAL: string) => {
    const { exit, err } = runCommand(['config', 'edit', '--data-dir', dataDir], '', { VISUAL })
    return { code: await exit, err: err() }
  }
  expect(await editWith('true')).toMatchObject({ code: 0, err: expect.stringMatching(/Nothing/) })
  const wrong = await editWith(`echo '{"sandbox":{"concurrency":0}}' >`)
  expect(wrong).toMatchObject({
    code: 1,
    err: expect.stringMatching(/sandbox\.concurrency: .*\n {2}try: switchyard config edit /s),
  })
  expect(await editWith('cp /dev/null')).toMatchObject({ code: 1, err: expect.stringMatching(/is not JSON/) })
  expect(readFileSync(file, 'utf8')).toBe('')
  expect(await editWith('false')).toMatchObject({ code: 1 })
  const missing = await editWith('no-such-editor --wait')
  expect(missing).toMatchObject({
    code: 1,
    err: expect.stringMatching(/ {2}try: VISUAL=vi switchyard config edit --data-dir \S+\n$/),
  })
})

test('an agent is set and shown by its name for people', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.changed = () =>
    yes({
      config: { ...configDefaults, agent: { ...configDefaults.agent, provider: 'agentB' } },
      applied: 'live',
    })
  const { out } = await print((context) => set(context, 'agent.provider', 'codex'))
  expect(hostApi.patches).toEqual([{ agent: { provider: 'agentB' } }])
  expect(out).toBe('agent.provider = codex\n')
  expect((await print((context) => get(context, 'agent.provider'))).out).toBe('claude\n')
})

test('settings that are not set are listed with what they mean, and described', async () => {
  const { print } = await openCommandHost()
  const { out } = await print((context) => get(context, 'sandbox'))
  expect(out).toMatch(/\nsandbox\.memoryMib\t-\tMemory of a sandbox in MiB\./)
  await expect(print((context) => get(context, 'sandbox.memoryMib'))).rejects.toMatchObject({
    code: 1,
    cure: 'switchyard config describe sandbox.memoryMib',
  })
  const described = await print((context) => describe(context, 'sandbox.concurrency'))
  expect(described.out).toMatch(
    /value +2\ndefault +2\ntakes +a number, at least 1, at most 64\nmeaning +How many/,
  )
  await expect(print((context) => describe(context, 'sandbox.moon'))).rejects.toMatchObject({ code: 2 })
})

test('a refused value is named as it was given', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.changed = () =>
    no('invalid', '/patch/sandbox/concurrency: must be a whole number or null, not a string')
  await expect(print((context) => set(context, 'sandbox.concurrency', 'abc'))).rejects.toMatchObject({
    message: 'sandbox.concurrency: must be a whole number or null, not "abc"',
  })
  hostApi.changed = () =>
    no('invalid', '/repos/api/agent: must be one of "agentA", "agentB", "agentC" or null, not a string')
  await expect(print((context) => set(context, 'repos.api.agent', 'moon'))).rejects.toMatchObject({
    message: 'repos.api.agent: must be one of "claude", "codex", "gemini" or null, not "moon"',
  })
  // The text of a whole section is not the value that is refused in it.
  hostApi.changed = () =>
    no('invalid', '/patch/sandbox/concurrency: must be a whole number or null, not a string')
  const section = '{"concurrency":"abc"}'
  await expect(print((context) => set(context, 'sandbox', section))).rejects.toMatchObject({
    message: 'sandbox.concurrency: must be a whole number or null, not a string',
  })
})
