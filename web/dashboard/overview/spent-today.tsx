/** The costs of this day so far, as the page of costs has them. What adds them up is no part of the first load. */
import { useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'

export function SpentToday() {
  const loaded = useSignal<ComponentType | undefined>(undefined)
  useEffect(() => {
    import('../costs/spent-today-link.tsx').then(
      ({ SpentTodayLink }) => {
        loaded.value = SpentTodayLink
      },
      // The page of costs says it when the program cannot be loaded.
      () => {},
    )
  }, [])
  const Link = loaded.value
  return Link === undefined ? null : <Link />
}
