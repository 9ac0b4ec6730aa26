/** `switchyard dashboard`: the real command before a real host. */
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type IPty, spawn } from '@lydell/node-pty'
import { type CommandProcess, commandPath, runCommand, serve } from '../support/command-process.ts'
import { freePort } from '../support/free-ports.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'
import { until } from '../support/until.ts'

const LINK = /^(http:\/\/127\.0\.0\.1:(\d+))\/#code=([\w-]{22})\n$/

interface OpenPage {
  readonly command: CommandProcess
  readonly origin: string
  readonly cookie: string
}

/** Starts the command and signs in, as a browser does that opens its link. */
const openPage = (...args: readonly string[]): Promise<OpenPage> =>
  signInByLink(runCommand(['dashboard', '--no-open', ...args]))

async function signInByLink(command: CommandProcess): Promise<OpenPage> {
  await until('the link is printed', () => command.out().includes('\n'))
  const [, origin = '', , code] = LINK.exec(command.out()) ?? []
  const reply = await signIn(origin, code)
  expect(reply.status).toBe(204)
  return { command, origin, cookie: reply.headers.get('set-cookie')?.split(';')[0] ?? '' }
}

const signIn = (origin: string, code: string | undefined) =>
  fetch(`${origin}/session`, { method: 'POST', body: JSON.stringify({ code }) })

const read = async ({ origin, cookie }: OpenPage, path: string) => {
  const reply = await fetch(`${origin}${path}`, { headers: { cookie } })
  return { status: reply.status, text: await reply.text() }
}

function hostFolder(): string {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const config = { server: { port: 0 }, fleet: { port: 0 } }
  writeFileSync(join(dataDir, 'config.json'), JSON.stringify(config), { mode: 0o600 })
  return dataDir
}

test('shows the host of its data directory on the port that it is given', async () => {
  const dataDir = hostFolder()
  const port = await freePort()
  const first = serve(dataDir)
  const launch = await first.waitForLaunch()
  const page = await openPage('--data-dir', dataDir, '--port', String(port))
  expect(page.origin).toBe(`http://127.0.0.1:${port}`)
  expect((await read(page, '/')).text).toContain('<script type="module" src="/assets/')
  expect(JSON.parse((await read(page, '/api/runs')).text)).toEqual([])
  const config = await read(page, '/api/config')
  expect(config.text).toContain('"policy"')
  expect(config.text).not.toContain(launch.token)

  // Another host of the same folder has another port and another token, and the browser stays signed in.
  first.process.kill('SIGKILL')
  await first.exit
  expect((await read(page, '/api/runs')).status).toBe(503)
  await serve(dataDir).waitForLaunch()
  await until('the page reaches the new host', async () => (await read(page, '/api/runs')).status === 200)

  page.command.process.kill('SIGTERM')
  expect(await page.command.exit).toBe(0)
  expect(page.command.out()).toMatch(LINK)
})

test('leads to the inspector of the same data directory, where one is served', async () => {
  const dataDir = hostFolder()
  const page = await openPage('--data-dir', dataDir, '--port', '0')
  const missing = await read(page, '/inspector')
  expect([missing.status, missing.text]).toEqual([404, expect.stringContaining('switchyard inspect')])
  const inspector = runCommand(['inspect', '--no-open', '--port', '0', '--data-dir', dataDir])
  await until('the inspector is there', () => inspector.out().includes('\n'))
  const { link } = JSON.parse((await read(page, '/inspector')).text) as { link: string }
  expect(new URL(link).origin).toBe(new URL(inspector.out().trim()).origin)
  expect((await signIn(new URL(link).origin, new URL(link).hash.slice('#code='.length))).status).toBe(204)
  expect((await read({ ...page, cookie: '' }, '/inspector')).status).toBe(401)
})

test('waits for a host that is not there yet, and says so', async () => {
  const dataDir = hostFolder()
  const page = await openPage('--data-dir', dataDir, '--port', '0')
  await until('it is said', () => page.command.err().includes('waits for the host'))
  const { status, text } = await read(page, '/api/runs')
  expect([status, text]).toEqual([503, expect.stringContaining('no host is running')])
})

test('a second one gives a link to the first, and one of another data directory names the taken port', async () => {
  const dataDir = hostFolder()
  const launch = await serve(dataDir).waitForLaunch()
  const page = await openPage('--data-dir', dataDir, '--port', '0')
  const { port } = new URL(page.origin)
  const record = join(dataDir, `dashboard-${port}.json`)
  expect(statSync(record).mode & 0o777).toBe(0o600)
  const args = ['dashboard', '--no-open', '--port', port, '--data-dir']
  const second = runCommand([...args, dataDir])
  expect(await second.exit).toBe(0)
  const [, origin, , code] = LINK.exec(second.out()) ?? []
  expect([origin, (await signIn(page.origin, code)).status]).toEqual([page.origin, 204])
  // Another program has the port that is wanted, and the page is served at its own.
  const blocked = runCommand([...args.with(3, new URL(launch.url).port), dataDir])
  await blocked.exit
  expect(blocked.out()).toContain(`${page.origin}/#code=`)

  const refused = runCommand([...args, hostFolder()])
  expect(await refused.exit).toBe(69)
  expect([refused.out(), refused.err()]).toEqual(['', expect.stringContaining('--port')])

  page.command.process.kill('SIGTERM')
  expect(await page.command.exit).toBe(0)
  expect(existsSync(record)).toBe(false)
})

test('a host serves it in its own process, also when the port is taken', async () => {
  const dataDir = hostFolder()
  const host = serve(dataDir, ['--dashboard-port', '0'])
  const page = await signInByLink(host)
  expect((await read(page, '/api/runs')).text).toBe('[]')

  const { port } = new URL(page.origin)
  const late = serve(hostFolder(), ['--dashboard', '--dashboard-port', port])
  await late.waitForLaunch()
  await until('the taken port is named', () => late.err().includes('--dashboard-port'))
  expect((await late.request('/api/runs')).status).toBe(200)

  host.process.kill('SIGTERM')
  expect(await host.exit).toBe(0)
  expect(existsSync(join(dataDir, `dashboard-${port}.json`))).toBe(false)
})

test.each(['dashboard', 'inspect'])(
  '%s opens a browser on a terminal with a screen, and not with --no-open',
  async (name) => {
    const folder = tempFolder()
    const opened = join(folder, 'opened')
    const opener = join(folder, 'xdg-open')
    writeFileSync(opener, `#!/bin/sh\necho "$1" > ${opened}.new && mv ${opened}.new ${opened}\n`)
    chmodSync(opener, 0o755)
    const env = { PATH: `${folder}:${process.env.PATH}`, DISPLAY: ':0' }
    const inTerminal = (...args: readonly string[]) => runInTerminal([name, '--port', '0', ...args], env)
    const silent = inTerminal('--no-open')
    await until('the link is printed', () => silent.out().includes('#code='))
    await until('the hint is printed', () => silent.out().includes('Ctrl-C'))
    expect(existsSync(opened)).toBe(false)
    const loud = inTerminal()
    await until('the browser is opened', () => existsSync(opened))
    await until('the hint is printed', () => loud.out().includes('Ctrl-C'))
    const link = /http:\S+#code=\S+/.exec(loud.out())?.[0]
    expect(readFileSync(opened, 'utf8').trim()).toBe(link)
    const remote = runInTerminal([name, '--port', '0'], {
      ...env,
      SSH_CONNECTION: '192.0.2.1 5 192.0.2.7 22',
    })
    await until('the tunnel is named', () =>
      /ssh -N -L (\d+):127\.0\.0\.1:\1 \S+@192\.0\.2\.7/.test(remote.out()),
    )
  },
)

function runInTerminal(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): { readonly out: () => string } {
  const terminal: IPty = spawn(process.execPath, [commandPath, ...args], { cols: 200, env: { ...env } })
  let out = ''
  terminal.onData((text) => {
    out += text
  })
  closeAfterTest(() => terminal.kill('SIGKILL'))
  return { out: () => out }
}
