/**
 * Acts: what a person can do now, by button, key or palette, from one description.
 *
 * A component offers acts while it is shown. Keys and the palette use the acts that are offered; the innermost
 * component's act wins where two have the same keys. An act that is not available is found by its name, with the reason.
 */
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

export interface Act {
  /** Unique among the acts of a page. */
  readonly id: string
  /** Verb and object: `Retry ENG-398`. */
  readonly title: string
  /** The heading in the palette: `Actions on ENG-398`, `Go to`. */
  readonly group: string
  /** `r`, `Shift c`, `g o` for keys in a row, `Ctrl Enter`. */
  readonly keys?: string
  /** Why it cannot be done now. */
  readonly unavailable?: string | undefined
  /** The act works in text fields too. */
  readonly evenInFields?: boolean
  readonly act: () => void | Promise<void>
}

const offered = signal<readonly { readonly acts: readonly Act[] }[]>([])

/** All acts, those of the innermost component first. */
export const offeredActs = (): readonly Act[] => offered.value.toReversed().flatMap(({ acts }) => acts)

/** Offers acts for as long as the component is shown. */
export function useActs(acts: readonly Act[]): void {
  const current = useRef<{ acts: readonly Act[] }>({ acts })
  current.current.acts = acts
  useEffect(() => {
    const own = current.current
    offered.value = [...offered.value, own]
    return () => {
      offered.value = offered.value.filter((entry) => entry !== own)
    }
  }, [])
}
