/** A line of a diff: both numbers, the sign, the text with its changed words. The number opens a comment. */
import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { Icon } from '../../elements/glyph.tsx'
import { formatCount } from '../../text/amounts.ts'
import { showTurningMarks } from '../run/log/clean-text.ts'
import { changedWordsOf, type DiffLine, type LinePlace } from './diff-rows.ts'

/** Longer lines are folded: nobody reads them, and drawing them takes long. */
const LINE_CHARS_MAX = 1_000

const SIGNS = { context: '', added: '+', removed: '−' } as const
const KIND_WORDS = { context: '', added: 'added', removed: 'removed' } as const

export interface DiffLineRowProps {
  readonly line: DiffLine
  readonly place: LinePlace
  readonly isChosen: boolean
  /** Whether people have said something about it. */
  readonly isMarked: boolean
  /** The column in which it stands, where there are two. */
  readonly half?: 'left' | 'right'
  readonly choose: () => void
  /** Absent where no comments can be written. */
  readonly comment: ((isRange: boolean) => void) | undefined
}

export function DiffLineRow({ line, place, isChosen, isMarked, half, choose, comment }: DiffLineRowProps) {
  const { kind, before, after } = line
  return (
    <div
      class={`diff-line ${kind}${half === undefined ? '' : ' half'}${isChosen ? ' chosen' : ''}`}
      onPointerUp={choose}
    >
      {half === undefined && (
        <span class="diff-number" role="cell">
          {before}
        </span>
      )}
      <span class="diff-number" role="cell">
        {isMarked && (
          <span class="diff-mark" title="Has comments">
            <Icon name="comment" label="Has comments" />
          </span>
        )}
        {half === 'left' ? before : after}
        {comment !== undefined && (
          <button
            type="button"
            class="diff-comment"
            tabIndex={isChosen ? 0 : -1}
            aria-label={`Comment on line ${place.line}${kind === 'removed' ? ' before the change' : ''}`}
            title="Comment; with Shift on all lines from the chosen one"
            onClick={(event) => comment(event.shiftKey)}
          >
            <Icon name="comment" />
          </button>
        )}
      </span>
      <span class="diff-sign" role="cell">
        <span aria-hidden="true">{SIGNS[kind]}</span>
        <span class="visually-hidden">{KIND_WORDS[kind]}</span>
      </span>
      <span class="diff-text" role="cell">
        <LineText line={line} path={place.path} />
      </span>
    </div>
  )
}

function LineText({ line, path }: { readonly line: DiffLine; readonly path: string }) {
  const isWhole = useSignal(false)
  const text = showTurningMarks(line.text)
  if (text.length > LINE_CHARS_MAX && !isWhole.value)
    return (
      <>
        {text.slice(0, LINE_CHARS_MAX)}…{' '}
        <button
          type="button"
          class="button link"
          onClick={() => {
            isWhole.value = true
          }}
        >
          Show all {formatCount(text.length)} characters
        </button>
      </>
    )
  if (text === '') return <>{'\u200b'}</>
  const syntax = syntaxOf(path, text)
  let at = 0
  const parts = changedWordsOf(line).flatMap(([from, to]) => {
    const before = coloured(text, syntax, at, from)
    at = to
    // On the ground of changed words the colours of code would be too pale.
    return [...before, <mark key={from}>{text.slice(from, to)}</mark>]
  })
  return (
    <>
      {parts}
      {coloured(text, syntax, at, text.length)}
    </>
  )
}

/** A part of a line in the colours of its code. */
function coloured(text: string, syntax: readonly SyntaxRange[], from: number, to: number): ComponentChild[] {
  let at = from
  const parts = syntax.flatMap((range): ComponentChild[] => {
    const [start, end] = [Math.max(range.from, at), Math.min(range.to, to)]
    if (start >= end) return []
    const plain = text.slice(at, start)
    at = end
    return [
      plain,
      <span key={start} class={`code-${range.kind}`}>
        {text.slice(start, end)}
      </span>,
    ]
  })
  return [...parts, text.slice(at, to)]
}

// ---- colours of code -----------------------------------------------------------------------------------------------

type SyntaxKind = 'comment' | 'text' | 'keyword'

interface SyntaxRange {
  readonly kind: SyntaxKind
  readonly from: number
  readonly to: number
}

const KEYWORDS =
  'abstract as async await break case catch class const continue def default defer del do elif else end enum except ' +
  'export extends extern false False final finally fn for from func function go if impl implements import in ' +
  'instanceof interface is lambda let match mod module mut namespace new nil None not null of or and package pass ' +
  'private protected pub public raise readonly return select self static struct super switch then this throw trait ' +
  'true True try type typeof undefined use val var void when where while with yield'
const TEXTS = String.raw`"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|` + String.raw`\x60(?:\\.|[^\x60\\])*\x60`
const patternOf = (comment: string): RegExp =>
  new RegExp(`(${comment})|(${TEXTS})|\\b(?:${KEYWORDS.replaceAll(' ', '|')})\\b`, 'g')

const SLASHES = patternOf(String.raw`//.*|/\*.*?(?:\*/|$)|^\s*\*(?:\s.*|/.*)?$`)
const HASHES = patternOf(String.raw`(?<!\S)#.*`)
const DASHES = patternOf('--.*')
const LANGUAGES: readonly (readonly [endings: string, pattern: RegExp])[] = [
  ['ts tsx mts cts js jsx mjs cjs java c h cc cpp hpp cs go kt swift scala php rs dart css scss', SLASHES],
  ['py rb sh bash zsh yml yaml toml tf pl r', HASHES],
  ['sql lua', DASHES],
]
const patterns = new Map(
  LANGUAGES.flatMap(([endings, pattern]) => endings.split(' ').map((ending) => [ending, pattern] as const)),
)

/**
 * The comments, texts and keywords of one line, for the common languages. A line is read by itself, because a diff
 * shows parts of files. Prose and unknown files have no colours.
 */
function syntaxOf(path: string, text: string): SyntaxRange[] {
  const pattern = patterns.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase())
  if (pattern === undefined) return []
  return [...text.matchAll(pattern)].map((found) => ({
    kind: found[1] !== undefined ? 'comment' : found[2] !== undefined ? 'text' : 'keyword',
    from: found.index,
    to: found.index + found[0].length,
  }))
}
