/**
 * Creates terminal output by the megabyte: coloured log lines, or a screen that is drawn again and again with
 * cursor movements.
 */
import { SIZE } from './terminal-protocol.ts'

const ESC = '\u001b['

export function logLines(bytes: number): string {
  return repeatUntil(bytes, (at) => {
    const level = at % 9 === 0 ? `${ESC}33mwarn${ESC}0m` : `${ESC}32minfo${ESC}0m`
    const file = `source/part-${at % 37}/module-${at % 1_013}.ts`
    return `${ESC}2m12:04:${at % 60}.${at % 1_000}${ESC}0m ${level} compiled ${ESC}36m${file}${ESC}0m in ${at % 97} ms\n`
  })
}

/** A table under a title, drawn row by row, with single cells redrawn between two rows. */
export function fullScreen(bytes: number): string {
  const body = repeatUntil(bytes, (at) => `${drawTable(at)}${drawCells(at)}`)
  return `${ESC}?1049h${ESC}?25l${body}${ESC}?25h${ESC}?1049l`
}

function drawTable(at: number): string {
  let screen = `${ESC}H${ESC}1;44m${` all tasks, page ${at}`.padEnd(SIZE.cols)}${ESC}0m`
  for (let row = 2; row < SIZE.rows; row++) {
    const share = (at * row) % 100
    const bar = '|'.repeat(share / 4).padEnd(26)
    const name = `task-${(at + row) % 512} --with an argument or two`
    screen += `${ESC}${row};1H${ESC}36m${String(at + row).padStart(7)}${ESC}m ${ESC}1;3${share % 8}m[${bar}]${ESC}m ${String(share).padStart(3)}% ${name}${ESC}K`
  }
  return `${screen}${ESC}${SIZE.rows};1H${ESC}7m q leaves, ? helps ${ESC}m${ESC}K`
}

function drawCells(at: number): string {
  let cells = ''
  for (let cell = 0; cell < 40; cell++) {
    const row = 2 + ((at * 7 + cell * 11) % (SIZE.rows - 2))
    const col = 1 + ((at * 13 + cell * 29) % (SIZE.cols - 4))
    cells += `${ESC}${row};${col}H${ESC}38;5;${(at + cell) % 256}m${cell}${ESC}0m`
  }
  return cells
}

function repeatUntil(bytes: number, part: (at: number) => string): string {
  const parts: string[] = []
  let length = 0
  for (let at = 0; length < bytes; at++) {
    const next = part(at)
    parts.push(next)
    length += next.length
  }
  return parts.join('')
}
