/** The colours of the terminal, from the page's own, so that both themes are legible. */
import type { ITheme, Terminal } from '@xterm/xterm'
import { PREFERENCES_KEY, readPreferences } from '../state/preferences.ts'

const NAMES = {
  foreground: '--text',
  background: '--surface',
  cursor: '--accent',
  cursorAccent: '--surface',
  selectionBackground: '--accent-soft',
  black: '--text',
  red: '--bad',
  green: '--good',
  yellow: '--warn',
  blue: '--accent',
  magenta: '--merged',
  cyan: '--accent',
  white: '--text-2',
  brightBlack: '--text-3',
  brightRed: '--bad',
  brightGreen: '--good',
  brightYellow: '--warn',
  brightBlue: '--accent',
  brightMagenta: '--merged',
  brightCyan: '--accent',
  brightWhite: '--text',
} as const satisfies Partial<Record<keyof ITheme, string>>

/** A probe resolves what the style sheet leaves to the browser, such as `light-dark()`. */
export function terminalColors(root: HTMLElement): ITheme {
  const probe = root.ownerDocument.createElement('span')
  root.append(probe)
  const colors = Object.entries(NAMES).map(([name, variable]) => {
    probe.style.setProperty('color', `var(${variable})`)
    return [name, getComputedStyle(probe).color]
  })
  probe.remove()
  return Object.fromEntries(colors)
}

/** The theme that the person has chosen; the page around this document may change it at any time. */
export function applyTheme(): void {
  const { theme } = readPreferences()
  const { dataset } = document.documentElement
  if (theme === 'system') delete dataset.theme
  else dataset.theme = theme
}

export function followTheme(terminal: Terminal): void {
  const draw = () => {
    applyTheme()
    terminal.options.theme = terminalColors(document.documentElement)
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
  addEventListener('storage', ({ key }) => {
    if (key === PREFERENCES_KEY) draw()
  })
}
