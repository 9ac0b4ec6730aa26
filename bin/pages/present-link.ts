/** Prints the link of a page, and opens it for people on a terminal, or names the line that leads to it over SSH. */
import { spawn } from 'node:child_process'

/** @param lastLine said to people last */
export function presentLink(link: string, mayOpen: boolean, lastLine: string): void {
  process.stdout.write(`${link}\n`)
  if (process.stderr.isTTY !== true) return
  const tunnel = tunnelLine(Number(new URL(link).port), process)
  if (tunnel !== undefined)
    process.stderr.write(
      `From your own machine: ${tunnel}\nThen open the link there. It is good once, for a minute.\n`,
    )
  else if (mayOpen) openForPerson(link)
  process.stderr.write(`${lastLine}\n`)
}

/** Does nothing where the person's browser is not on this machine, and where there is no screen. */
export function openForPerson(link: string): void {
  const program = process.env.SSH_CONNECTION === undefined ? browserProgram(process) : undefined
  if (program !== undefined) openInBrowser(program, link)
}

interface BrowserEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: NodeJS.Platform
}

/** The line for the person's own machine when this terminal came over SSH: there the browser is. */
function tunnelLine(port: number, { env }: Pick<BrowserEnvironment, 'env'>): string | undefined {
  const [, , address] = (env.SSH_CONNECTION ?? '').split(' ')
  if (address === undefined) return undefined
  return `ssh -N -L ${port}:127.0.0.1:${port} ${env.USER ?? 'user'}@${address}`
}

/** The program that opens links; undefined where there is no screen to open one on. */
function browserProgram({ env, platform }: BrowserEnvironment): string | undefined {
  if (platform === 'darwin') return 'open'
  const hasScreen = (env.DISPLAY ?? '') !== '' || (env.WAYLAND_DISPLAY ?? '') !== ''
  return hasScreen ? 'xdg-open' : undefined
}

/** A browser that does not open is no failure: the link stands on the terminal. */
function openInBrowser(program: string, link: string): void {
  // The link holds a code, which other users of this machine may see among the arguments; it is good once.
  const child = spawn(program, [link], { stdio: 'ignore', detached: true })
  child.on('error', () => {})
  child.unref()
}
