#ifndef TESSERA_OPS_VISION_BOXES_ANCHOR_MATCHER_H_
#define TESSERA_OPS_VISION_BOXES_ANCHOR_MATCHER_H_

#include <vector>

#include "tessera/base/shape.h"
#include "tessera/ops/vision/regions/boxes.h"

namespace tessera::ops_internal {

/// Gives each anchor at most one of a sample's objects (Liu et al. 2016, section 2.2). T is float
/// or double. Both lists of boxes must outlive the matcher.
template <typename T>
class AnchorMatcher {
 public:
  AnchorMatcher(const std::vector<Box<T>>& anchors, const std::vector<Box<T>>& objects)
      : anchors_(anchors), objects_(objects), of_anchor_(anchors.size()) {
    for (size_t k = 0; k < objects.size(); ++k) {
      for (size_t i = 0; i < anchors.size(); ++i) {
        const T overlap = OverlapOf(anchors[i], objects[k]);
        OfAnchor& of = of_anchor_[i];
        if (!(overlap > of.largest_overlap)) continue;
        of.largest_overlap = overlap;
        of.nearest_object = static_cast<index_t>(k);
      }
    }
  }

  /// Gives each object the anchor that overlaps it most, the pairs of largest overlap first: each
  /// anchor has one object. Objects that overlap no free anchor by more than 1e-6 get none. Of
  /// equal overlaps, the first anchor and then the first object is taken.
  void MatchBestPairs() {
    std::vector<Pair> pairs;
    for (size_t k = 0; k < objects_.size(); ++k) pairs.push_back(BestPair(k));
    for (;;) {
      Pair best;
      for (const Pair& pair : pairs) {
        if (pair.ComesBefore(best)) best = pair;
      }
      if (best.anchor < 0) return;
      of_anchor_[static_cast<size_t>(best.anchor)].object = best.object;
      pairs[static_cast<size_t>(best.object)] = Pair();
      for (size_t k = 0; k < pairs.size(); ++k) {
        if (pairs[k].anchor == best.anchor) pairs[k] = BestPair(k);
      }
    }
  }

  /// Gives each free anchor the object that it overlaps most, if by more than `threshold`.
  void MatchAbove(T threshold) {
    for (OfAnchor& of : of_anchor_) {
      if (of.object < 0 && of.largest_overlap > threshold) of.object = of.nearest_object;
    }
  }

  size_t num_anchors() const { return anchors_.size(); }
  /// Returns the position of the anchor's object, or -1.
  index_t object_of(size_t anchor) const { return of_anchor_[anchor].object; }
  /// Returns the largest overlap of the anchor with an object, or -1 if all are NaN.
  T largest_overlap(size_t anchor) const { return of_anchor_[anchor].largest_overlap; }

 private:
  struct OfAnchor {
    index_t object = -1;
    index_t nearest_object = -1;
    T largest_overlap = -1;
  };

  /// An anchor and an object that overlap; the anchor is -1 if there is none.
  struct Pair {
    index_t anchor = -1;
    index_t object = -1;
    T overlap = T(1e-6);

    bool ComesBefore(const Pair& other) const {
      if (anchor < 0 || other.anchor < 0) return anchor >= 0;
      return overlap > other.overlap || (overlap == other.overlap && anchor < other.anchor);
    }
  };

  /// Returns the pair of an object with the free anchor that overlaps it most.
  Pair BestPair(size_t object) const {
    Pair best;
    for (size_t i = 0; i < anchors_.size(); ++i) {
      if (of_anchor_[i].object >= 0) continue;
      const T overlap = OverlapOf(anchors_[i], objects_[object]);
      if (overlap > best.overlap) {
        best = {static_cast<index_t>(i), static_cast<index_t>(object), overlap};
      }
    }
    return best;
  }

  const std::vector<Box<T>>& anchors_;
  const std::vector<Box<T>>& objects_;
  std::vector<OfAnchor> of_anchor_;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_BOXES_ANCHOR_MATCHER_H_
