/** Opens a link in the person's browser, or says how to reach it from where the person is. */
import { spawn } from 'node:child_process'

export interface BrowserEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: NodeJS.Platform
}

/** The line for the person's own machine when this terminal came over SSH: there the browser is. */
export function tunnelLine(port: number, { env }: Pick<BrowserEnvironment, 'env'>): string | undefined {
  const [, , address] = (env.SSH_CONNECTION ?? '').split(' ')
  if (address === undefined) return undefined
  return `ssh -N -L ${port}:127.0.0.1:${port} ${env.USER ?? 'user'}@${address}`
}

/** The program that opens links; undefined where there is no screen to open one on. */
export function browserProgram({ env, platform }: BrowserEnvironment): string | undefined {
  if (platform === 'darwin') return 'open'
  const hasScreen = (env.DISPLAY ?? '') !== '' || (env.WAYLAND_DISPLAY ?? '') !== ''
  return hasScreen ? 'xdg-open' : undefined
}

/** A browser that does not open is no failure: the link stands on the terminal. */
export function openInBrowser(program: string, link: string): void {
  // The link holds a code, which other users of this machine may see among the arguments; it is good once.
  const child = spawn(program, [link], { stdio: 'ignore', detached: true })
  child.on('error', () => {})
  child.unref()
}
