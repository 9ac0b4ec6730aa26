/** `switchyard inspect` and `serve --inspect`: the real commands, their files and whom they let in. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { checkStory } from '../../core/inspection/story.ts'
import type { InspectedActor } from '../../protocol/inspection.ts'
import { type CommandProcess, runCommand, serve } from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { LocalSystem } from '../support/local-system.ts'
import { connectSocket } from '../support/socket-client.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const LINK = /^http:\/\/127\.0\.0\.1:(\d+)\/#code=([\w-]{22})$/m

function hostFolder(): string {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const config = { server: { port: 0 }, fleet: { port: 0 } }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  return dataDir
}

interface SignedIn {
  readonly port: number
  readonly cookie: string
}

async function signIn(command: CommandProcess): Promise<SignedIn> {
  await until('the link is printed', () => LINK.test(command.out()))
  const [, port = '', code] = LINK.exec(command.out()) ?? []
  const reply = await fetch(`http://127.0.0.1:${port}/session`, {
    method: 'POST',
    body: JSON.stringify({ code }),
  })
  return { port: Number(port), cookie: reply.headers.get('set-cookie')?.split(';')[0] ?? '' }
}

const read = async ({ port, cookie }: SignedIn, path: string) => {
  const reply = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { cookie } })
  return { status: reply.status, type: reply.headers.get('content-type'), text: await reply.text() }
}

test('a host serves the inspector in its own process, which reaches its actors and nothing else', async () => {
  const host = serve(hostFolder(), ['--inspect', '0'])
  const page = await signIn(host)
  expect((await read(page, '/')).text).toContain('<script type="module" src="/assets/')
  expect(JSON.parse((await read(page, '/charts.json')).text)).toHaveProperty('run')
  expect((await read(page, '/api/health')).status).toBe(200)
  expect((await read(page, '/api/runs')).type).toContain('text/html')

  const actors = connectSocket(page.port, '/ws/inspect', { cookie: page.cookie })
  const [hello, list] = await actors.firstFrames(2)
  expect(hello).toMatchObject({ type: 'inspect-hello' })
  expect(list).toMatchObject({ type: 'inspect-actors', complete: true })
  await expect(connectSocket(page.port, '/ws', { cookie: page.cookie }).opened).rejects.toThrow()
  expect((await host.waitForLaunch()).inspectorUrl).toBe(`http://127.0.0.1:${page.port}`)
  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)
})

test('a worker that shares its actors is seen beside those of the host, and another is not', async () => {
  const system = await LocalSystem.open()
  await system.pairWorker(['--name', 'open', '--share-actors'])
  await system.pairWorker(['--name', 'closed'])
  const page = await signIn(runCommand(['inspect', '--no-open', '--port', '0', '--data-dir', system.dataDir]))
  const viewer = connectSocket(page.port, '/ws/inspect', { cookie: page.cookie })
  const seen = () =>
    viewer.frames.flatMap((frame) =>
      frame.type === 'inspect-actors' ? (frame.changed as InspectedActor[]) : [],
    )
  system.writeTicket('SHARED-1', ['write a.txt', '  a', 'commit A'])
  system.writeTicket('SHARED-2', ['write b.txt', '  b', 'commit B'])
  for (const ticket of ['SHARED-1', 'SHARED-2']) await system.waitForEnd(ticket)
  await until('the daemon of the open worker is seen', () => seen().some(({ kind }) => kind === 'daemon'))
  const open = seen().find(({ kind, process }) => kind === 'daemon' && process !== undefined)
  expect(open).toMatchObject({ state: 'serving', id: `${open?.worker}/daemon/daemon` })
  expect(new Set(seen().flatMap(({ process }) => process ?? []))).toEqual(new Set([open?.worker]))
})

test('tools of others get in once by their code, and no page of another origin does', async () => {
  const dataDir = hostFolder()
  await serve(dataDir).waitForLaunch()
  const port = await freePort()
  const args = ['inspect', '--no-open', '--data-dir', dataDir, '--port', String(port)]
  const first = runCommand(args)
  const page = await signIn(first)
  const codeOf = async (): Promise<string> => {
    const another = runCommand(args)
    await another.exit
    return LINK.exec(another.out())?.[2] ?? ''
  }
  const events = (code: string, headers: Record<string, string> = {}) =>
    connectSocket(page.port, `/inspect/events?code=${code}`, { authorization: '', ...headers })
  const code = await codeOf()
  for (const origin of ['http://evil.example', 'null'])
    await expect(events(code, { origin }).opened).rejects.toThrow()
  const tool = events(code)
  expect((await tool.firstFrames(1))[0]).toMatchObject({
    type: '@xstate.actor',
    sessionId: 'root/root',
    definition: expect.stringContaining('"booting"'),
  })
  for (const wrong of [code, '', 'x'.repeat(22)]) await expect(events(wrong).opened).rejects.toThrow()
  await expect(events('', { cookie: page.cookie }).opened).rejects.toThrow()
  first.process.kill('SIGTERM')
  expect((await tool.closed).code).toBe(1001)
})

test('a story goes on across a host that is killed, and is served to who is signed in', async () => {
  const dataDir = hostFolder()
  const host = serve(dataDir)
  await host.waitForLaunch()
  const path = join(tempFolder(), 'story.jsonl')
  const recorder = runCommand(['inspect', '--record', path, '--data-dir', dataDir])
  await until('it records', () => recorder.err().includes('Ctrl-C ends the story'))
  host.process.kill('SIGKILL')
  await until('it waits', () => recorder.err().includes('the story waits for it'))
  const next = serve(dataDir)
  await next.waitForLaunch()
  await until('it goes on', () => recorder.err().includes('The host is back.'))
  await until('the actors of the new host are there', () =>
    readFileSync(path, 'utf8').includes('"is":"restored"'),
  )
  recorder.process.kill('SIGINT')
  expect(await recorder.exit).toBe(0)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(checkStory(readFileSync(path, 'utf8'))).toMatchObject({ ok: true, value: { isIncomplete: false } })

  const page = await signIn(runCommand(['inspect', path, '--no-open', '--port', '0']))
  expect(await read(page, '/story')).toMatchObject({
    status: 200,
    type: 'application/x-ndjson',
    text: readFileSync(path, 'utf8'),
  })
  expect((await read({ ...page, cookie: '' }, '/story')).status).toBe(401)
  await expect(connectSocket(page.port, '/ws/inspect', { cookie: page.cookie }).opened).rejects.toThrow()
})

test.each([
  ['no story', ['inspect', 'README.md'], 1, /README\.md can't be opened as a story: line 1/],
  ['no file', ['inspect', '/nowhere.jsonl'], 1, /can't be opened/],
  ['a file that is there', ['inspect', '--record', 'README.md'], 1, /README\.md can't be written/],
  ['two files', ['inspect', 'a', '--record', 'b'], 2, /opened or recorded, not both/],
])('%s is refused with the reason', async (_, args, code, reason) => {
  const command = runCommand(args)
  expect(await command.exit).toBe(code)
  expect(command.err()).toMatch(reason)
})
