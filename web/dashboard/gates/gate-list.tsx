/** The gates between a ticket and a worker, each with what it found and the cure. */
import { productName, withAgentNames } from '../../../client/agent-names.ts'
import type { ExplainResponse } from '../../../protocol/explain.ts'
import type { StateGlyph } from '../../elements/glyph.tsx'
import { Glyph } from '../../elements/glyph.tsx'
import { address } from '../../router.ts'
import { capitalized } from '../../text/sentences.ts'
import { runAddress, settingAddress } from '../addresses.ts'
import { curePlace } from './cure-places.ts'

type ShownGate = ExplainResponse['gates'][number]

const GLYPHS: Readonly<Record<ShownGate['status'], readonly [StateGlyph, word: string]>> = {
  pass: ['completed', 'Open'],
  wait: ['limit', 'Opens by itself'],
  stop: ['needs-you', 'Needs you'],
}

const NAMES: Partial<Record<ShownGate['id'], string>> = { duplicate: 'Other run', policy: 'Pause' }

export function GateList({ gates }: { readonly gates: readonly ShownGate[] }) {
  return (
    <ul class="card gates">
      {gates.map(({ id, status, message, cure }) => (
        <li key={id} class={`gate ${status}`}>
          <Glyph name={GLYPHS[status][0]} alone label={GLYPHS[status][1]} />
          <span class="gate-name">{NAMES[id] ?? capitalized(id)}</span>
          <span class="gate-finding">
            <WithLinks text={withAgentNames(message, productName)} />{' '}
            {cure !== undefined && status !== 'pass' && <Cure cure={cure} />}
          </span>
        </li>
      ))}
    </ul>
  )
}

const LINKED = /\b((?:agent|codehost|policy|repos|sandbox|tracker)\.[\w*]+(?:\.[\w*]+)*|run-[0-9a-f]{32}\b)/

/** A text in which runs and the keys of settings lead to them. */
function WithLinks({ text }: { readonly text: string }) {
  return (
    <>{text.split(LINKED).map((part, at) => (at % 2 === 0 ? part : <LinkedPart key={part} part={part} />))}</>
  )
}

function LinkedPart({ part }: { readonly part: string }) {
  const to = part.startsWith('run-')
    ? runAddress(part)
    : part.includes('*')
      ? settingAddress('repos')
      : settingAddress(part)
  return (
    <a class="cure" href={to}>
      {part.startsWith('run-') ? 'its run' : part}
    </a>
  )
}

/** A link where the page can do what the cure says, and otherwise its words. */
export function Cure({ cure }: { readonly cure: string }) {
  const place = curePlace(cure)
  if (place === undefined)
    return /^switchyard /.test(cure) ? <code>{cure}</code> : <span class="quiet">{cure}</span>
  // A link to the page itself would do nothing.
  if (place.to === address.value.path) return null
  return (
    <a class="cure" href={place.to}>
      {place.text}
    </a>
  )
}
