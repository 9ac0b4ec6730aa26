/**
 * Records a session: types its lines in a terminal of a width, and returns what the terminal shows at its captions.
 *
 * The session runs in a fresh checkout with an environment of its own, so that a recording doesn't depend on the
 * person who makes it. Nothing of it is left behind, also when a step fails.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openEmulatedTerminal } from './emulated-terminal.ts'
import { createFreshCheckout, type FreshCheckout } from './fresh-checkout.ts'
import { AT_PROMPT, type RecordedSession, type RecordedStep } from './recorded-session.ts'
import type { RecordedTerminal, TerminalOptions } from './recorded-terminal.ts'
import { replaceChanging } from './replacements.ts'
import { isTmuxInstalled, openTmuxTerminal } from './tmux-terminal.ts'

const TERMINALS = { tmux: openTmuxTerminal, emulated: openEmulatedTerminal } as const
export type TerminalKind = keyof typeof TERMINALS

const ROWS = 40
/** A fresh checkout is built in the first step, which takes minutes on a machine that does much else. */
const STEP_MS_MAX = 600_000
const POLL_EVERY_MS = 30
const TYPED = /^\$ \S/
const KEYS = { 'Ctrl-C': '\x03', Enter: '\r' } as const

export const usualTerminal = (): TerminalKind => (isTmuxInstalled() ? 'tmux' : 'emulated')

/** Returns the file of a recording. */
export const recordingPath = (root: string, { name }: RecordedSession, columns: number): string =>
  join(root, 'docs', 'recordings', `${name}-${columns}.txt`)

/** @param root the checkout */
export async function recordSession(
  session: RecordedSession,
  columns: number,
  root: string,
  kind: TerminalKind = usualTerminal(),
): Promise<string> {
  // Programs beside the session are not recorded, and neither is their build.
  const checkout = createFreshCheckout(root, session.beside !== undefined)
  try {
    const play = async (steps: readonly RecordedStep[], goOn?: Play): Promise<readonly string[]> => {
      const terminal = await TERMINALS[kind](optionsOf(checkout, columns))
      try {
        const captures = await playSteps(terminal, session, steps)
        if (goOn === undefined) return captures
        captures.push(...(await goOn()))
        await terminal.type(KEYS['Ctrl-C'])
        await waitFor(terminal, 0, { until: AT_PROMPT })
        return captures
      } finally {
        await terminal.close()
      }
    }
    const main: Play = () => play(session.steps)
    const captures = await (session.beside === undefined ? main() : play(session.beside, main))
    return [`# ${session.title}, in a terminal of ${columns} columns\n`, ...captures].join('\n')
  } finally {
    checkout.remove()
  }
}

/** Plays steps and returns what they captured. */
type Play = () => Promise<readonly string[]>

async function playSteps(
  terminal: RecordedTerminal,
  session: RecordedSession,
  steps: readonly RecordedStep[],
): Promise<string[]> {
  const captures: string[] = []
  let from = 0
  await waitFor(terminal, from, { until: AT_PROMPT })
  for (const step of steps) {
    if (step.types !== undefined) {
      from = (await terminal.lines()).length - 1
      await terminal.type(step.types + KEYS.Enter)
      // Until then the terminal shows the prompt at which the line is typed, which could pass for the next one.
      await waitFor(terminal, from, { until: TYPED })
    }
    if (step.presses !== undefined) await terminal.type(KEYS[step.presses])
    const shown = await waitFor(terminal, from, step)
    if (step.caption !== undefined) captures.push(formatCapture(step.caption, shown, session, step))
  }
  return captures
}

function formatCapture(caption: string, shown: string, session: RecordedSession, step: RecordedStep): string {
  const replacements = [...session.replacements, ...(step.replacements ?? [])]
  return `## ${caption}\n\n${replaceChanging(shown, replacements)}\n`
}

async function waitFor(
  terminal: RecordedTerminal,
  from: number,
  { until, withinMs = STEP_MS_MAX }: RecordedStep,
): Promise<string> {
  const end = performance.now() + withinMs
  for (;;) {
    const shown = (await terminal.lines()).slice(from).join('\n')
    if (until.test(shown)) return shown
    if (performance.now() > end) throw new Error(`the terminal did not show ${until} but:\n${shown}`)
    await pause(POLL_EVERY_MS)
  }
}

function optionsOf({ folder, home, sandboxes }: FreshCheckout, columns: number): TerminalOptions {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: home,
    LANG: 'C.UTF-8',
    PS1: '$ ',
    SWITCHYARD_SANDBOX_DIR: sandboxes,
    npm_config_update_notifier: 'false',
  }
  return { columns, rows: ROWS, folder, env }
}
