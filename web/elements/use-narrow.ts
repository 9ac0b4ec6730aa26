/** Whether the window is narrower than a number of pixels, now and after each change. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export function useNarrow(pixels: number): boolean {
  const query = `(max-width: ${pixels - 0.02}px)`
  const isNarrow = useSignal(matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = () => {
      isNarrow.value = list.matches
    }
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return isNarrow.value
}

/** The height of rows in pixels, as the stylesheet gives it for the density, the pointer and the size of text. */
export function rowHeight(name: '--row' | '--row-low' = '--row-low'): number {
  const style = getComputedStyle(document.documentElement)
  return Math.round(Number.parseFloat(style.getPropertyValue(name)) * Number.parseFloat(style.fontSize))
}
