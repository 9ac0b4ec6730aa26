/** A line of a diff: both numbers, the sign, the text with its changed words. The number opens a comment. */
import { useSignal } from '@preact/signals'
import { Icon } from '../../elements/icon.tsx'
import { formatCount } from '../../text/amounts.ts'
import { changedWordsOf, type DiffLine, type LinePlace } from './diff-rows.ts'

/** Longer lines are folded: nobody reads them, and drawing them takes long. */
const LINE_CHARS_MAX = 1_000

const SIGNS = { context: '', added: '+', removed: '−' } as const
const KIND_WORDS = { context: '', added: 'added', removed: 'removed' } as const

export interface DiffLineRowProps {
  readonly line: DiffLine
  readonly place: LinePlace
  readonly isChosen: boolean
  readonly choose: () => void
  /** Absent where no comments can be written. */
  readonly comment: ((isRange: boolean) => void) | undefined
}

export function DiffLineRow({ line, place, isChosen, choose, comment }: DiffLineRowProps) {
  const { kind, before, after } = line
  return (
    <div class={`diff-line ${kind}${isChosen ? ' chosen' : ''}`} onPointerUp={choose}>
      <span class="diff-number" role="cell">
        {before}
      </span>
      <span class="diff-number" role="cell">
        {after}
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
        <LineText line={line} />
      </span>
    </div>
  )
}

function LineText({ line }: { readonly line: DiffLine }) {
  const isWhole = useSignal(false)
  const { text } = line
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
  const ranges = changedWordsOf(line)
  if (ranges.length === 0) return <>{text === '' ? '\u200b' : text}</>
  let at = 0
  const parts = ranges.flatMap(([from, to]) => {
    const plain = text.slice(at, from)
    at = to
    return [plain, <mark key={from}>{text.slice(from, to)}</mark>]
  })
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  )
}
